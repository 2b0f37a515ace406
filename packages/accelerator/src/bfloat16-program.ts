import { mlirParameters } from "./program-signature.ts";

const NAME = String.raw`%[\w.$-]+`;
const DOT = new RegExp(
  String.raw`^(\s*)(${NAME}) = stablehlo\.dot_general (${NAME}), (${NAME}), (.*?) : ` +
    String.raw`\(tensor<([\dx]+)xf32>, tensor<([\dx]+)xf32>\) -> (tensor<[\dx]+xf32>)\s*$`,
);

/**
 * The same program with both sides of every matrix product rounded to bfloat16, and the sums in float32. Arguments after the first
 * `inputs` that only matrix products use become bfloat16 themselves, so that they are rounded once and take half the
 * memory. `products` is how many products were found: operations are recognized as MLIR prints them, one a line.
 */
export function toBfloat16(text: string, inputs: number): { readonly program: string; readonly products: number } {
  const lines = text.split("\n");
  const products = lines.filter((line) => DOT.test(line)).length;
  const operands = new Map<string, number>();
  for (const line of lines) {
    const [, , , lhs, rhs] = DOT.exec(line) ?? [];
    for (const name of [lhs, rhs]) if (name) operands.set(name, (operands.get(name) ?? 0) + 1);
  }
  const rounded = new Set(
    argumentNames(text)
      .slice(inputs)
      // Once where it is declared, otherwise only in products.
      .filter((name) => operands.has(name) && usesOf(name, text) === operands.get(name)! + 1),
  );
  let conversions = 0;
  const program = lines.map((line) => {
    const [, indent = "", result, lhs, rhs, rest = "", lhsShape, rhsShape, type] = DOT.exec(line) ?? [];
    if (result === undefined) return declareRounded(line, rounded);
    const before: string[] = [];
    const round = (name: string, shape: string): string => {
      if (rounded.has(name)) return name;
      const converted = `%bfloat16_${conversions++}`;
      before.push(
        `${indent}${converted} = stablehlo.convert ${name} : (tensor<${shape}xf32>) -> tensor<${shape}xbf16>`,
      );
      return converted;
    };
    const [left, right] = [round(lhs!, lhsShape!), round(rhs!, rhsShape!)];
    const attributes = rest.replace(/,? ?precision = \[[^\]]*\]/, "");
    const types = `(tensor<${lhsShape}xbf16>, tensor<${rhsShape}xbf16>) -> ${type}`;
    return [...before, `${indent}${result} = stablehlo.dot_general ${left}, ${right}, ${attributes} : ${types}`].join(
      "\n",
    );
  });
  return { program: program.join("\n"), products };
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
  return Uint16Array.from(bits, (word, i) => {
    // A NaN stays one, whatever its bits.
    if (Number.isNaN(numbers[i])) return (word >>> 16) | 0x40;
    return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  });
}
