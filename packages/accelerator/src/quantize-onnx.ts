import { bytesField, integerField, readFields, readIntegers, textField, type WireField } from "./wire-format.ts";

// Field numbers of onnx.proto.
const MODEL_GRAPH = 7;
const GRAPH_NODE = 1;
const GRAPH_INITIALIZER = 5;
const GRAPH_OUTPUT = 12;
const NODE_INPUT = 1;
const NODE_OUTPUT = 2;
const NODE_OP_TYPE = 4;
const NODE_ATTRIBUTE = 5;
const NODE_DOMAIN = 7;
const ATTRIBUTE_NAME = 1;
const ATTRIBUTE_FLOAT = 2;
const ATTRIBUTE_INTEGER = 3;
const ATTRIBUTE_GRAPH = 6;
const TENSOR_DIMS = 1;
const TENSOR_DATA_TYPE = 2;
const TENSOR_NAME = 8;
const TENSOR_RAW_DATA = 9;
const VALUE_NAME = 1;
const FLOAT = 1;
const INT8 = 3;

interface Node {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly fields: readonly WireField[];
}

/** A float32 matrix among the model's weights. */
interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array;
}

export interface QuantizedModel {
  readonly bytes: Uint8Array;
  /** Weight matrices that are int8 now. */
  readonly quantizedWeights: number;
}

const texts = (fields: readonly WireField[], number: number): string[] =>
  fields.filter((field) => field.number === number).map(({ content }) => Buffer.from(content).toString());

function parseNode(content: Uint8Array): Node {
  const fields = readFields(content);
  const [op = ""] = texts(fields, NODE_OP_TYPE);
  const isOnnx = texts(fields, NODE_DOMAIN).every((domain) => domain === "" || domain === "ai.onnx");
  return { op: isOnnx ? op : "", inputs: texts(fields, NODE_INPUT), outputs: texts(fields, NODE_OUTPUT), fields };
}

function parseMatrix(fields: readonly WireField[]): Matrix | undefined {
  const dims = readIntegers(fields, TENSOR_DIMS);
  const type = fields.find(({ number }) => number === TENSOR_DATA_TYPE)?.value;
  const raw = fields.find(({ number }) => number === TENSOR_RAW_DATA)?.content;
  const [rows, columns] = dims;
  if (rows === undefined || columns === undefined || dims.length !== 2) return undefined;
  if (type !== FLOAT || raw?.length !== rows * columns * 4) return undefined;
  return { rows, columns, data: new Float32Array(Uint8Array.from(raw).buffer) };
}

/** Whether the node is x · weight (+ bias) and nothing else. */
function isPlainProduct({ op, inputs, fields }: Node): boolean {
  if (op === "MatMul") return inputs.length === 2;
  if (op !== "Gemm") return false;
  return fields
    .filter(({ number }) => number === NODE_ATTRIBUTE)
    .every(({ content }) => {
      const attribute = readFields(content);
      const [name = ""] = texts(attribute, ATTRIBUTE_NAME);
      if (name.startsWith("trans"))
        return (attribute.find(({ number }) => number === ATTRIBUTE_INTEGER)?.value ?? 0) === 0;
      const float = attribute.find(({ number }) => number === ATTRIBUTE_FLOAT)?.raw;
      return float !== undefined && Buffer.from(float).readFloatLE(1) === 1;
    });
}

function encodeNode(
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: Uint8Array[] = [],
): Uint8Array {
  return bytesField(GRAPH_NODE, [
    ...inputs.map((name) => textField(NODE_INPUT, name)),
    ...outputs.map((name) => textField(NODE_OUTPUT, name)),
    textField(NODE_OP_TYPE, op),
    ...attributes,
  ]);
}

function encodeTensor(name: string, dims: readonly number[], type: number, data: Int8Array | Float32Array): Uint8Array {
  return bytesField(GRAPH_INITIALIZER, [
    ...dims.map((dimension) => integerField(TENSOR_DIMS, dimension)),
    integerField(TENSOR_DATA_TYPE, type),
    textField(TENSOR_NAME, name),
    bytesField(TENSOR_RAW_DATA, [new Uint8Array(data.buffer)]),
  ]);
}

/**
 * Seven bits, not eight: processors without VNNI add two products of uint8 and int8 in 16 bits, which saturate, silently.
 * 2 × 255 × 64 just fits, so the result is the same on all of them.
 */
const LARGEST_WEIGHT = 64;

/** Symmetric, with a scale for each column: weight ≈ quantized × scale. */
function quantizeMatrix({ rows, columns, data }: Matrix): { quantized: Int8Array; scales: Float32Array } {
  const scales = new Float32Array(columns);
  for (let i = 0; i < data.length; i++) scales[i % columns] = Math.max(scales[i % columns]!, Math.abs(data[i]!));
  for (let column = 0; column < columns; column++)
    scales[column] = scales[column]! > 0 ? scales[column]! / LARGEST_WEIGHT : 1;
  const quantized = new Int8Array(rows * columns);
  for (let i = 0; i < data.length; i++) quantized[i] = Math.round(data[i]! / scales[i % columns]!);
  return { quantized, scales };
}

/**
 * The same model with its weight matrices in int8: each MatMul or Gemm with a constant right side becomes
 * DynamicQuantizeLinear → MatMulInteger → Cast → Mul (→ Add), a pattern for which onnxruntime has one fused kernel.
 * Activations are quantized to uint8 by their range in the batch, weights once, by column. Everything else is kept byte by
 * byte, and so are weights that are not a float32 matrix inside the file. Throws a RangeError if the bytes are no protobuf.
 */
export function quantizeOnnx(bytes: Uint8Array): QuantizedModel {
  let quantizedWeights = 0;
  const model = readFields(bytes).map((field) => {
    if (field.number !== MODEL_GRAPH) return field.raw;
    const graph = quantizeGraph(readFields(field.content));
    quantizedWeights += graph.quantizedWeights;
    return bytesField(MODEL_GRAPH, graph.pieces);
  });
  return { bytes: Buffer.concat(model), quantizedWeights };
}

function quantizeGraph(graph: readonly WireField[]): { pieces: Uint8Array[]; quantizedWeights: number } {
  const matrices = new Map<string, Matrix>();
  for (const { content } of graph.filter(({ number }) => number === GRAPH_INITIALIZER)) {
    const fields = readFields(content);
    const matrix = parseMatrix(fields);
    if (matrix) matrices.set(texts(fields, TENSOR_NAME)[0] ?? "", matrix);
  }
  const pieces: Uint8Array[] = [];
  const quantizedInputs = new Map<string, string>();
  const quantizedMatrices = new Set<string>();
  const stillUsed = new Set(
    graph
      .filter(({ number }) => number === GRAPH_OUTPUT)
      .flatMap(({ content }) => texts(readFields(content), VALUE_NAME)),
  );
  let hasSubgraphs = false;

  const quantizeProduct = ({ inputs, outputs }: Node, matrix: Matrix): void => {
    const [x = "", weight = "", bias] = inputs;
    const [y = ""] = outputs;
    const names = quantizedInputs.get(x) ?? `${x}/uint8`;
    if (!quantizedInputs.has(x)) {
      pieces.push(encodeNode("DynamicQuantizeLinear", [x], [names, `${names}/scale`, `${names}/zero`]));
      quantizedInputs.set(x, names);
    }
    if (!quantizedMatrices.has(weight)) {
      const { quantized, scales } = quantizeMatrix(matrix);
      pieces.push(encodeTensor(`${weight}/int8`, [matrix.rows, matrix.columns], INT8, quantized));
      pieces.push(encodeTensor(`${weight}/int8/scale`, [matrix.columns], FLOAT, scales));
      quantizedMatrices.add(weight);
    }
    const product = bias === undefined || bias === "" ? y : `${y}/product`;
    const toFloat = bytesField(NODE_ATTRIBUTE, [
      textField(ATTRIBUTE_NAME, "to"),
      integerField(ATTRIBUTE_INTEGER, FLOAT),
      integerField(20, 2),
    ]);
    pieces.push(encodeNode("MatMulInteger", [names, `${weight}/int8`, `${names}/zero`], [`${y}/int32`]));
    pieces.push(encodeNode("Cast", [`${y}/int32`], [`${y}/cast`], [toFloat]));
    pieces.push(encodeNode("Mul", [`${names}/scale`, `${weight}/int8/scale`], [`${y}/scale`]));
    pieces.push(encodeNode("Mul", [`${y}/cast`, `${y}/scale`], [product]));
    if (product !== y) pieces.push(encodeNode("Add", [product, bias!], [y]));
  };

  for (const field of graph) {
    if (field.number === GRAPH_INITIALIZER) continue;
    if (field.number !== GRAPH_NODE) {
      pieces.push(field.raw);
      continue;
    }
    const node = parseNode(field.content);
    const matrix = matrices.get(node.inputs[1] ?? "");
    if (matrix !== undefined && isPlainProduct(node)) {
      quantizeProduct(node, matrix);
      continue;
    }
    for (const name of node.inputs) stillUsed.add(name);
    hasSubgraphs ||= node.fields.some(
      ({ number, content }) =>
        number === NODE_ATTRIBUTE && readFields(content).some((part) => part.number === ATTRIBUTE_GRAPH),
    );
    pieces.push(field.raw);
  }
  for (const { content, raw } of graph.filter(({ number }) => number === GRAPH_INITIALIZER)) {
    const [name = ""] = texts(readFields(content), TENSOR_NAME);
    // A branch or a loop's body may use any weight of the graph around it.
    if (!quantizedMatrices.has(name) || stillUsed.has(name) || hasSubgraphs) pieces.push(raw);
  }
  return { pieces, quantizedWeights: quantizedMatrices.size };
}
