import type { FixtureModel, FixtureNode, FixtureWeight } from "../test/onnx-fixture.ts";

/** A dense network of a DLRM's shape: dense [B,13] and pooled [B,26,128] through layers of `widths` to scores [B]. */
export function denseNetwork(widths: readonly number[]): FixtureModel {
  const nodes: FixtureNode[] = [
    { op: "Flatten", inputs: ["pooled"], outputs: ["flat"], attributes: { axis: 1 } },
    { op: "Concat", inputs: ["dense", "flat"], outputs: ["x0"], attributes: { axis: 1 } },
  ];
  const weights: FixtureWeight[] = [{ name: "column", shape: [1], data: BigInt64Array.of(-1n) }];
  let inputs = 13 + 26 * 128;
  for (const [i, outputs] of [...widths, 1].entries()) {
    const scale = 1 / Math.sqrt(inputs);
    const data = Float32Array.from({ length: inputs * outputs }, (_, at) => scale * Math.sin(at * 12.9898));
    weights.push({ name: `w${i}`, shape: [inputs, outputs], data });
    nodes.push({ op: "MatMul", inputs: [`x${i}`, `w${i}`], outputs: [`y${i}`] });
    nodes.push({ op: i === widths.length ? "Sigmoid" : "Relu", inputs: [`y${i}`], outputs: [`x${i + 1}`] });
    inputs = outputs;
  }
  nodes.push({ op: "Reshape", inputs: [`x${widths.length + 1}`, "column"], outputs: ["scores"] });
  return {
    inputs: [
      { name: "dense", shape: ["batch", 13] },
      { name: "pooled", shape: ["batch", 26, 128] },
    ],
    outputs: [{ name: "scores", shape: ["batch"] }],
    nodes,
    weights,
  };
}
