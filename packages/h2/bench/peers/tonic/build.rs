fn main() {
    let proto = std::env::var("DLRM_PROTO").expect("DLRM_PROTO: the folder of the workspace's protos");
    println!("cargo::rerun-if-env-changed=DLRM_PROTO");
    tonic_prost_build::configure()
        .compile_protos(&[format!("{proto}/dlrm/serving/v1/prediction.proto")], &[proto])
        .unwrap();
}
