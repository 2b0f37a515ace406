/** Just enough of an ONNX writer to make the small models that tests need: protobuf wire format, by hand. */

const FLOAT = 1;
export const INT64 = 7;

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) | 0x80, ...varint(Math.floor(value / 128))];
}
const integer = (field: number, value: number): number[] => [...varint(field * 8), ...varint(value)];
const bytes = (field: number, value: Iterable<number>): number[] => {
  const content = [...value];
  return [...varint(field * 8 + 2), ...varint(content.length), ...content];
};
const text = (field: number, value: string): number[] => bytes(field, Buffer.from(value));

export interface FixtureValue {
  readonly name: string;
  /** A name is an open dimension. */
  readonly shape: readonly (number | string)[];
  readonly elementType?: number;
}

export interface FixtureNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Integer attributes. */
  readonly attributes?: Readonly<Record<string, number>>;
}

export interface FixtureWeight {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array | BigInt64Array;
}

export interface FixtureModel {
  readonly inputs: readonly FixtureValue[];
  readonly outputs: readonly FixtureValue[];
  readonly nodes: readonly FixtureNode[];
  readonly weights?: readonly FixtureWeight[];
}

function valueInfo({ name, shape, elementType = FLOAT }: FixtureValue): number[] {
  const dimensions = shape.flatMap((dimension) =>
    bytes(1, typeof dimension === "number" ? integer(1, dimension) : text(2, dimension)),
  );
  return [...text(1, name), ...bytes(2, bytes(1, [...integer(1, elementType), ...bytes(2, dimensions)]))];
}

function node({ op, inputs, outputs, attributes = {} }: FixtureNode): number[] {
  const INT = 2;
  const encoded = Object.entries(attributes).flatMap(([name, value]) =>
    bytes(5, [...text(1, name), ...integer(3, value), ...integer(20, INT)]),
  );
  return [
    ...inputs.flatMap((name) => text(1, name)),
    ...outputs.flatMap((name) => text(2, name)),
    ...text(4, op),
    ...encoded,
  ];
}

function weight({ name, shape, data }: FixtureWeight): number[] {
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const type = data instanceof Float32Array ? FLOAT : INT64;
  // Both ways of writing repeated integers are found in real files: packed for matrices, unpacked for the rest.
  const dims =
    shape.length === 2 ? bytes(1, shape.flatMap(varint)) : shape.flatMap((dimension) => integer(1, dimension));
  return [...dims, ...integer(2, type), ...text(8, name), ...bytes(9, raw)];
}

/** The bytes of an ONNX file (IR version 8, operator set 17). */
export function encodeOnnx({ inputs, outputs, nodes, weights = [] }: FixtureModel): Uint8Array {
  const graph = [
    ...nodes.flatMap((value) => bytes(1, node(value))),
    ...text(2, "fixture"),
    ...weights.flatMap((value) => bytes(5, weight(value))),
    ...inputs.flatMap((value) => bytes(11, valueInfo(value))),
    ...outputs.flatMap((value) => bytes(12, valueInfo(value))),
  ];
  return Uint8Array.from([...integer(1, 8), ...bytes(8, integer(2, 17)), ...bytes(7, graph)]);
}

/** The smallest ranking model: scores = sigmoid([dense, pooled flattened] · weights), dense [B,4], pooled [B,2,3]. */
export function rankingModel(weights: Float32Array): FixtureModel {
  return {
    inputs: [
      { name: "dense", shape: ["batch", 4] },
      { name: "pooled", shape: ["batch", 2, 3] },
    ],
    outputs: [{ name: "scores", shape: ["batch"] }],
    nodes: [
      { op: "Flatten", inputs: ["pooled"], outputs: ["flat"], attributes: { axis: 1 } },
      { op: "Concat", inputs: ["dense", "flat"], outputs: ["all"], attributes: { axis: 1 } },
      { op: "MatMul", inputs: ["all", "weights"], outputs: ["logit"] },
      { op: "Sigmoid", inputs: ["logit"], outputs: ["score"] },
      { op: "Reshape", inputs: ["score", "flatShape"], outputs: ["scores"] },
    ],
    weights: [
      { name: "weights", shape: [10, 1], data: weights },
      { name: "flatShape", shape: [1], data: BigInt64Array.of(-1n) },
    ],
  };
}
