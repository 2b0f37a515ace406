import { readdirSync, readFileSync } from "node:fs";

/** `pid` and all that descend from it, `pid` first; empty if it has ended, or there is no /proc. */
export function processTree(pid: number): number[] {
  const childrenOf = new Map<number, number[]>();
  let alive = false;
  for (const name of readDirectory("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const parent = parentOf(name);
    if (parent === undefined) continue;
    if (Number(name) === pid) alive = true;
    const siblings = childrenOf.get(parent);
    if (siblings === undefined) childrenOf.set(parent, [Number(name)]);
    else siblings.push(Number(name));
  }
  if (!alive) return [];
  const tree = [pid];
  for (let index = 0; index < tree.length; index++) tree.push(...(childrenOf.get(tree[index] as number) ?? []));
  return tree;
}

function parentOf(pid: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name is in parentheses and may hold anything, parentheses too.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(fields[1]);
  } catch {
    return undefined;
  }
}

/** Names in a folder; none if it is gone. */
export function readDirectory(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
