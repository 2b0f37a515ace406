import { readFields, readIntegers } from "./wire-format.ts";

/** An argument or result of a program. */
export interface SignatureTensor {
  /** As MLIR writes it: `f32`, `bf16`, `i32`, … */
  readonly elementType: string;
  readonly dimensions: readonly number[];
}

/** XLA's numbers of element types, as far as people meet them. */
const HLO_ELEMENT_TYPES: Readonly<Record<number, string>> = {
  1: "i1",
  2: "i8",
  3: "i16",
  4: "i32",
  5: "i64",
  6: "ui8",
  7: "ui16",
  8: "ui32",
  9: "ui64",
  10: "f16",
  11: "f32",
  12: "f64",
  16: "bf16",
};

// Fields of xla.HloModuleProtoWithConfig, HloModuleProto, ProgramShapeProto and ShapeProto.
const WITH_CONFIG_MODULE = 1;
const MODULE_PROGRAM_SHAPE = 4;
const PROGRAM_SHAPE_PARAMETERS = 1;
const SHAPE_ELEMENT_TYPE = 2;
const SHAPE_DIMENSIONS = 3;

/** The parameters of a serialized HLO module, or undefined if `format` or the bytes are others. */
export function hloParameters(format: string, code: Uint8Array): SignatureTensor[] | undefined {
  try {
    let module = code;
    if (format === "hlo_with_config") {
      module = readFields(code).find(({ number }) => number === WITH_CONFIG_MODULE)?.content ?? new Uint8Array();
    } else if (format !== "hlo") return undefined;
    const shape = readFields(module).find(({ number }) => number === MODULE_PROGRAM_SHAPE);
    return (
      shape &&
      readFields(shape.content)
        .filter(isParameter)
        .map(({ content }) => readShape(content))
    );
  } catch {
    return undefined;
  }
}

const isParameter = ({ number }: { readonly number: number }): boolean => number === PROGRAM_SHAPE_PARAMETERS;

function readShape(bytes: Uint8Array): SignatureTensor {
  const fields = readFields(bytes);
  const type = fields.find(({ number }) => number === SHAPE_ELEMENT_TYPE)?.value ?? 0;
  return {
    elementType: HLO_ELEMENT_TYPES[type] ?? `type ${type}`,
    dimensions: readIntegers(fields, SHAPE_DIMENSIONS),
  };
}

/** The parameters of the public `@main` of MLIR text, or undefined if there is none. */
export function mlirParameters(text: string): SignatureTensor[] | undefined {
  const main = /func\.func\s+(?:public\s+)?@main\s*\(/.exec(text);
  if (main === null) return undefined;
  const from = main.index + main[0].length;
  let depth = 1;
  let end = from;
  for (; end < text.length && depth > 0; end++) {
    const character = text[end]!;
    if ("({[".includes(character)) depth += 1;
    else if (")}]".includes(character)) depth -= 1;
  }
  if (depth > 0) return undefined;
  const parameters = text.slice(from, end - 1).matchAll(/:\s*tensor<((?:\d+x)*)([a-z]+\d+)>/g);
  return [...parameters].map(([, dimensions = "", elementType = ""]) => ({
    elementType,
    dimensions: dimensions.split("x").filter(Boolean).map(Number),
  }));
}

export function showTensor({ elementType, dimensions }: SignatureTensor): string {
  return `tensor<${[...dimensions, elementType].join("x")}>`;
}
