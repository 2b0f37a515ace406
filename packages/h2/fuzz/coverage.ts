/**
 * Which places of the code an input reached, and about how often: every block and branch of the packages' sources counts its
 * runs in one array. Sources that are imported after `instrumentSources` are changed as they are loaded.
 */
import { registerHooks } from "node:module";
import { parseSync } from "oxc-parser";

/** What is known of a node of the syntax tree. */
interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}
interface Insertion {
  readonly at: number;
  readonly text: string;
}

const MAX_PLACES = 1 << 15;
const SOURCES = /\/packages\/[^/]+\/src\/(?!.*\.test\.ts$).*\.ts$/;
const counts = new Uint32Array(MAX_PLACES);
let places = 0;

/** Counts the places of the packages' sources that are imported from here on. */
export function instrumentSources(): void {
  Object.assign(globalThis, { fuzzCounts: counts });
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!SOURCES.test(url) || loaded.source === undefined || loaded.source === null) return loaded;
      return { ...loaded, source: instrument(url, Buffer.from(loaded.source as Uint8Array).toString("utf8")) };
    },
  });
}

/** What inputs have reached together; each count is one of 32 powers of two, as one more run is hardly news. */
export class Coverage {
  private readonly seen = new Uint32Array(MAX_PLACES);

  /** Whether what has run since the last call reached a place, or a power of two, that nothing before did. */
  takeNews(): boolean {
    const { seen } = this;
    let isNew = false;
    for (let place = 0; place < places; place++) {
      const runs = counts[place] as number;
      if (runs === 0) continue;
      counts[place] = 0;
      const bit = 1 << (31 - Math.clz32(runs));
      if (((seen[place] as number) & bit) !== 0) continue;
      seen[place] = (seen[place] as number) | bit;
      isNew = true;
    }
    return isNew;
  }

  /** Places reached, and places there are. */
  get reached(): readonly [reached: number, places: number] {
    return [this.seen.subarray(0, places).reduce((sum, bits) => sum + Math.sign(bits), 0), places];
  }
}

function instrument(url: string, source: string): string {
  const { program, errors } = parseSync(url, source, { lang: "ts" });
  if (errors.length > 0) throw new Error(`${url} cannot be parsed: ${errors[0]?.message}`);
  const insertions: Insertion[] = [];
  visit(program as unknown as SyntaxNode, insertions);
  insertions.sort((a, b) => a.at - b.at);
  // On the first line, so that lines keep their numbers.
  let text = "const fuzzCounts = globalThis.fuzzCounts;";
  let at = 0;
  for (const insertion of insertions) {
    text += source.slice(at, insertion.at) + insertion.text;
    at = insertion.at;
  }
  return text + source.slice(at);
}

function visit(node: SyntaxNode, insertions: Insertion[]): void {
  for (const branch of branchesOf(node)) addCounter(branch, insertions);
  for (const value of Object.values(node)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (typeof (each as SyntaxNode | null)?.type === "string") visit(each as SyntaxNode, insertions);
    }
  }
}

/** The parts of a node that run, or do not run, on their own. */
function branchesOf(node: SyntaxNode): readonly SyntaxNode[] {
  const of = (...fields: string[]): SyntaxNode[] =>
    fields.map((field) => node[field] as SyntaxNode | null).filter((each) => each !== null && each !== undefined);
  switch (node.type) {
    case "IfStatement":
      return of("consequent", "alternate");
    case "ConditionalExpression":
      return of("consequent", "alternate");
    case "LogicalExpression":
      return of("right");
    case "FunctionDeclaration":
    case "FunctionExpression":
    case "ArrowFunctionExpression":
    case "ForStatement":
    case "ForOfStatement":
    case "ForInStatement":
    case "WhileStatement":
    case "DoWhileStatement":
    case "CatchClause":
      return of("body");
    case "SwitchCase":
      return (node["consequent"] as SyntaxNode[]).slice(0, 1);
    default:
      return [];
  }
}

function addCounter(branch: SyntaxNode, insertions: Insertion[]): void {
  if (places === MAX_PLACES) return;
  const counter = `fuzzCounts[${places++}]++`;
  if (branch.type === "BlockStatement") insertions.push({ at: branch.start + 1, text: `${counter};` });
  else if (branch.type.endsWith("Statement"))
    insertions.push({ at: branch.start, text: `{${counter};` }, { at: branch.end, text: "}" });
  else if (branch.type.endsWith("Declaration")) insertions.push({ at: branch.start, text: `${counter};` });
  else insertions.push({ at: branch.start, text: `(${counter},` }, { at: branch.end, text: ")" });
}
