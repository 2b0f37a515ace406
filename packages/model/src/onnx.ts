import { buildDenseNetwork, type DenseOperations } from "./dense-network.ts";
import { denseNetworkTensors } from "./dense-weights.ts";
import { ModelError } from "./model-error.ts";
import type { ModelSpec } from "./model-spec.ts";
import { OnnxMessage } from "./onnx-message.ts";
import type { Tensor } from "./safetensors-reader.ts";

/** Read by every ONNX Runtime since 1.14; nothing newer is used. */
const IR_VERSION = 8;
const OPSET_VERSION = 17;
const FLOAT = 1;
const INT64 = 7;
/** A protobuf message, and so a model with its weights inside, has at most 2 GiB. */
const MAX_MODEL_BYTES = 2 ** 31 - 1;

// Field numbers of onnx.proto.
const MODEL = { irVersion: 1, producerName: 2, graph: 7, opsetImport: 8 };
const OPSET = { version: 2 };
const GRAPH = { node: 1, name: 2, initializer: 5, input: 11, output: 12 };
const NODE = { input: 1, output: 2, name: 3, opType: 4, attribute: 5 };
const ATTRIBUTE = { name: 1, i: 3, type: 20 };
const ATTRIBUTE_TYPE_INT = 2;
const TENSOR = { dims: 1, dataType: 2, name: 8, rawData: 9 };
const VALUE_INFO = { name: 1, type: 2 };
const TYPE = { tensorType: 1 };
const TENSOR_TYPE = { elemType: 1, shape: 2 };
const SHAPE = { dim: 1 };
const DIM = { value: 1, param: 2 };

/**
 * The dense network as an ONNX model with its weights inside. Inputs `dense` float32 [B, denseFeatures] and `pooled`
 * float32 [B, features, embeddingDim], output `scores` float32 [B], for any B.
 * @param weights the tensors of the dense network by name (those of `dense.safetensors`; others are left out).
 * @throws {ModelError} `invalid_option` if a weight is missing, has another shape, or the model would exceed 2 GiB.
 */
export function emitOnnx(spec: ModelSpec, weights: ReadonlyMap<string, Tensor>): Uint8Array<ArrayBuffer> {
  const model = onnxModel(spec, weights);
  const bytes = new Uint8Array(model.bytes);
  let at = 0;
  for (const chunk of model.chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

/** {@link emitOnnx} without joining the chunks, which refer to the weights' own memory. */
export function onnxModel(spec: ModelSpec, weights: ReadonlyMap<string, Tensor>): OnnxMessage {
  const graph = new OnnxMessage();
  buildDenseNetwork(spec, new GraphNodes(graph));
  graph.text(GRAPH.name, spec.name);
  for (const tensor of denseNetworkTensors(spec)) {
    const weight = weights.get(tensor.name);
    const wanted = `[${tensor.shape.join(", ")}]`;
    if (weight === undefined) throw new ModelError("invalid_option", `no weight ${tensor.name} ${wanted}`);
    if (String(weight.shape) !== String(tensor.shape)) {
      throw new ModelError(
        "invalid_option",
        `weight ${tensor.name}: expected shape ${wanted}, got [${weight.shape.join(", ")}]`,
      );
    }
    const { buffer, byteOffset, byteLength } = weight.data;
    graph.message(
      GRAPH.initializer,
      tensorProto(tensor.name, FLOAT, tensor.shape, new Uint8Array(buffer, byteOffset, byteLength)),
    );
  }
  // 0 keeps the input's own first dimension, so that any B works.
  graph.message(GRAPH.initializer, shapeTensor("bags_shape", [0, spec.features.length * spec.embeddingDim]));
  graph.message(GRAPH.initializer, shapeTensor("scores_shape", [0]));
  graph.message(GRAPH.input, valueInfo("dense", ["B", spec.denseFeatures]));
  graph.message(GRAPH.input, valueInfo("pooled", ["B", spec.features.length, spec.embeddingDim]));
  graph.message(GRAPH.output, valueInfo("scores", ["B"]));
  const model = new OnnxMessage()
    .int(MODEL.irVersion, IR_VERSION)
    .text(MODEL.producerName, "@dlrm/model")
    .message(MODEL.opsetImport, new OnnxMessage().int(OPSET.version, OPSET_VERSION))
    .message(MODEL.graph, graph);
  if (model.bytes > MAX_MODEL_BYTES) {
    throw new ModelError(
      "invalid_option",
      `the ONNX model would have ${model.bytes} bytes, at most ${MAX_MODEL_BYTES} are possible`,
    );
  }
  return model;
}

/** Adds one node an operation to a graph; values are the names of node outputs. */
class GraphNodes implements DenseOperations<string> {
  readonly #graph: OnnxMessage;
  #count = 0;

  constructor(graph: OnnxMessage) {
    this.#graph = graph;
  }

  input(name: "dense" | "pooled"): string {
    return name;
  }

  linear(x: string, weight: string, bias?: string): string {
    return bias === undefined ? this.#add("MatMul", [x, weight]) : this.#add("Gemm", [x, weight, bias]);
  }

  relu(x: string): string {
    return this.#add("Relu", [x]);
  }

  multiply(x: string, y: string): string {
    return this.#add("Mul", [x, y]);
  }

  add(x: string, y: string): string {
    return this.#add("Add", [x, y]);
  }

  flattenBags(x: string): string {
    return this.#add("Reshape", [x, "bags_shape"]);
  }

  concat(x: string, y: string): string {
    return this.#add("Concat", [x, y], { axis: 1 });
  }

  score(x: string): string {
    const logits = this.#add("Reshape", [x, "scores_shape"]);
    this.#graph.message(GRAPH.node, node("Sigmoid", [logits], "scores"));
    return "scores";
  }

  #add(opType: string, inputs: readonly string[], attributes: Readonly<Record<string, number>> = {}): string {
    const output = `${opType.toLowerCase()}_${this.#count++}`;
    this.#graph.message(GRAPH.node, node(opType, inputs, output, attributes));
    return output;
  }
}

function node(
  opType: string,
  inputs: readonly string[],
  output: string,
  attributes: Readonly<Record<string, number>> = {},
): OnnxMessage {
  const message = new OnnxMessage();
  for (const input of inputs) message.text(NODE.input, input);
  message.text(NODE.output, output).text(NODE.name, output).text(NODE.opType, opType);
  for (const [name, value] of Object.entries(attributes)) {
    message.message(
      NODE.attribute,
      new OnnxMessage().text(ATTRIBUTE.name, name).int(ATTRIBUTE.i, value).int(ATTRIBUTE.type, ATTRIBUTE_TYPE_INT),
    );
  }
  return message;
}

function tensorProto(name: string, dataType: number, shape: readonly number[], data: Uint8Array): OnnxMessage {
  return new OnnxMessage()
    .ints(TENSOR.dims, shape)
    .int(TENSOR.dataType, dataType)
    .text(TENSOR.name, name)
    .raw(TENSOR.rawData, data);
}

function shapeTensor(name: string, shape: readonly number[]): OnnxMessage {
  const values = BigInt64Array.from(shape, BigInt);
  return tensorProto(name, INT64, [shape.length], new Uint8Array(values.buffer));
}

/** A float32 value; a named dimension may have any size. */
function valueInfo(name: string, shape: readonly (number | string)[]): OnnxMessage {
  const dims = new OnnxMessage();
  for (const size of shape) {
    const dim = new OnnxMessage();
    dims.message(SHAPE.dim, typeof size === "string" ? dim.text(DIM.param, size) : dim.int(DIM.value, size));
  }
  const tensorType = new OnnxMessage().int(TENSOR_TYPE.elemType, FLOAT).message(TENSOR_TYPE.shape, dims);
  return new OnnxMessage()
    .text(VALUE_INFO.name, name)
    .message(VALUE_INFO.type, new OnnxMessage().message(TYPE.tensorType, tensorType));
}
