import { mlirParameters } from "./program-signature.ts";

const NAME = String.raw`%[\w.$-]+`;
/** x [rows, n] · w [n] or [n, columns], as MLIR prints it: one operation a line. */
const PRODUCT = new RegExp(
  String.raw`^(\s*)(${NAME}) = stablehlo\.dot_general (${NAME}), (${NAME}), (contracting_dims = \[1\] x \[0\].*?) : ` +
    String.raw`\(tensor<(\d+)x(\d+)xf32>, tensor<(\d+(?:x\d+)?)xf32>\) -> tensor<([\dx]+)xf32>\s*$`,
);

/** Products that together are no more than this part of all multiplications stay float32: they would win next to nothing. */
const EXACT_SHARE = 1 / 8;

interface Product {
  readonly indent: string;
  readonly result: string;
  readonly x: string;
  readonly w: string;
  readonly attributes: string;
  readonly rows: number;
  readonly inner: number;
  readonly wShape: string;
  /** Dimensions of the result after the rows, with an x before each. */
  readonly columns: string;
}

/**
 * The same program with its matrix products in bfloat16: weights rounded, activations as the sum of two bfloat16 numbers, sums
 * in float32. Both halves of x are rows of one product, [hi; lo] · w, so that w is read once; their results are added. What
 * is not a product stays float32, and so do the smallest products, up to an eighth of all multiplications.
 *
 * Arguments after the first `inputs` that only such products use become bfloat16 themselves: rounded once, half the
 * memory. `products` is how many products there are; none is found in text that MLIR would print otherwise.
 */
export function toBfloat16(text: string, inputs: number): { readonly program: string; readonly products: number } {
  const lines = text.split("\n");
  const products = largest(lines.map(readProduct));
  const uses = new Map<string, number>();
  for (const product of products.values()) uses.set(product.w, (uses.get(product.w) ?? 0) + 1);
  const rounded = new Set(
    argumentNames(text)
      .slice(inputs)
      // Once where it is declared, otherwise only in products.
      .filter((name) => uses.has(name) && usesOf(name, text) === uses.get(name)! + 1),
  );
  const program = lines.map((line, at) => {
    const product = products.get(at);
    return product === undefined ? declareRounded(line, rounded) : splitProduct(product, at, rounded);
  });
  return { program: program.join("\n"), products: products.size };
}

function readProduct(line: string): Product | undefined {
  const match = PRODUCT.exec(line);
  if (match === null) return undefined;
  const [, indent = "", result = "", x = "", w = "", attributes = "", rows, inner, wShape = "", shape = ""] = match;
  return {
    indent,
    result,
    x,
    w,
    // Precision is that of float32 operands.
    attributes: attributes.replace(/,? ?precision = \[[^\]]*\]/, ""),
    rows: Number(rows),
    inner: Number(inner),
    wShape,
    columns: shape.slice(rows!.length),
  };
}

/** By line: all products but the smallest. */
function largest(products: readonly (Product | undefined)[]): Map<number, Product> {
  const found = [...products.entries()].filter((entry): entry is [number, Product] => entry[1] !== undefined);
  const workOf = ([, { wShape }]: [number, Product]): number =>
    wShape.split("x").reduce((product, dimension) => product * Number(dimension), 1);
  let exactWork = EXACT_SHARE * found.reduce((sum, entry) => sum + workOf(entry), 0);
  const byWork = found.sort((a, b) => workOf(a) - workOf(b));
  return new Map(
    byWork.filter((entry) => {
      exactWork -= workOf(entry);
      return exactWork < 0;
    }),
  );
}

function splitProduct(product: Product, line: number, rounded: ReadonlySet<string>): string {
  const { indent, result, x, w, attributes, rows, inner, wShape, columns } = product;
  const type = (shape: string, elementType: string): string => `tensor<${shape}x${elementType}>`;
  const [one, both] = [`${rows}x${inner}`, `${2 * rows}x${inner}`];
  const [half, whole] = [`${rows}${columns}`, `${2 * rows}${columns}`];
  const name = (part: string): string => `%bfloat16_${line}_${part}`;
  const out: string[] = [];
  const emit = (part: string, operation: string): string => {
    out.push(`${name(part)} = ${operation}`);
    return name(part);
  };
  // Not a conversion there and back, which compilers may leave out.
  const hi = emit("hi", `stablehlo.reduce_precision ${x}, format = e8m7 : ${type(one, "f32")}`);
  const lo = emit("lo", `stablehlo.subtract ${x}, ${hi} : ${type(one, "f32")}`);
  const concatenated = `(${type(one, "f32")}, ${type(one, "f32")}) -> ${type(both, "f32")}`;
  const x2 = emit("x2", `stablehlo.concatenate ${hi}, ${lo}, dim = 0 : ${concatenated}`);
  const xb = emit("xb", `stablehlo.convert ${x2} : (${type(both, "f32")}) -> ${type(both, "bf16")}`);
  const wb = rounded.has(w)
    ? w
    : emit("w", `stablehlo.convert ${w} : (${type(wShape, "f32")}) -> ${type(wShape, "bf16")}`);
  const types = `(${type(both, "bf16")}, ${type(wShape, "bf16")}) -> ${type(whole, "f32")}`;
  const y2 = emit("y2", `stablehlo.dot_general ${xb}, ${wb}, ${attributes} : ${types}`);
  const slice = (from: number): string => {
    const rest = columns === "" ? "" : `, 0:${columns.slice(1)}`;
    return `stablehlo.slice ${y2} [${from}:${from + rows}${rest}] : (${type(whole, "f32")}) -> ${type(half, "f32")}`;
  };
  const [yHi, yLo] = [emit("y_hi", slice(0)), emit("y_lo", slice(rows))];
  out.push(`${result} = stablehlo.add ${yHi}, ${yLo} : ${type(half, "f32")}`);
  return out.map((operation) => indent + operation).join("\n");
}

function argumentNames(text: string): string[] {
  const count = mlirParameters(text)?.length ?? 0;
  const main = /func\.func\s+(?:public\s+)?@main\s*\(/.exec(text);
  if (main === null) return [];
  const declared = text.slice(main.index).matchAll(new RegExp(`(${NAME}):\\s*tensor<`, "g"));
  return [...declared].slice(0, count).map(([, name]) => name!);
}

function usesOf(name: string, text: string): number {
  return text
    .split(name)
    .slice(1)
    .filter((after) => !/^[\w.$-]/.test(after)).length;
}

function declareRounded(line: string, rounded: ReadonlySet<string>): string {
  if (!line.includes("@main")) return line;
  return line.replace(new RegExp(`(${NAME}):(\\s*)tensor<((?:\\d+x)*)f32>`, "g"), (all, name: string, space, shape) =>
    rounded.has(name) ? `${name}:${space}tensor<${shape}bf16>` : all,
  );
}

/** Float32 numbers as bfloat16 bits, rounded to the nearest, halves to even. */
export function roundToBfloat16(numbers: Float32Array): Uint16Array {
  const bits = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  const rounded = new Uint16Array(bits.length);
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i]!;
    // Beyond infinity's bits are the NaNs, which stay NaNs.
    rounded[i] =
      (word & 0x7fff_ffff) > 0x7f80_0000 ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return rounded;
}
