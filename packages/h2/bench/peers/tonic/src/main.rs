//! A server that decodes a Predict request and answers one float: what tonic costs a call.
use std::collections::HashMap;

use tonic::{Request, Response, Status, transport::Server};

pub mod pb {
    tonic::include_proto!("dlrm.serving.v1");
}
use pb::prediction_service_server::{PredictionService, PredictionServiceServer};
use pb::{
    DataType, GetModelMetadataRequest, GetModelMetadataResponse, HostBuffer, PredictRequest, PredictResponse,
};

struct Trivial;

#[tonic::async_trait]
impl PredictionService for Trivial {
    async fn predict(&self, request: Request<PredictRequest>) -> Result<Response<PredictResponse>, Status> {
        let request = request.into_inner();
        let scores = HostBuffer {
            data_type: DataType::Float32 as i32,
            shape: vec![1],
            data: (request.inputs.len() as f32).to_le_bytes().to_vec(),
        };
        let outputs = HashMap::from([("scores".to_string(), scores)]);
        Ok(Response::new(PredictResponse { outputs, version: String::new() }))
    }

    async fn get_model_metadata(
        &self,
        _: Request<GetModelMetadataRequest>,
    ) -> Result<Response<GetModelMetadataResponse>, Status> {
        Err(Status::unimplemented("only Predict"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).expect("usage: h2-bench-tonic PORT").parse()?;
    let service = PredictionServiceServer::new(Trivial).max_decoding_message_size(64 << 20);
    println!("listening on {port}");
    Server::builder().add_service(service).serve(([127, 0, 0, 1], port).into()).await?;
    Ok(())
}
