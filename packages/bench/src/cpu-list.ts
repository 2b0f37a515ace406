/**
 * CPUs of a list as the kernel and taskset write it (`0`, `0-3,8`), ascending, each once.
 *
 * @returns undefined if `text` is no such list.
 */
export function parseCpuList(text: string): number[] | undefined {
  const cpus = new Set<number>();
  for (const part of text.trim().split(",")) {
    const match = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(part.trim());
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    if (last < first) return undefined;
    for (let cpu = first; cpu <= last; cpu++) cpus.add(cpu);
  }
  return [...cpus].sort((a, b) => a - b);
}

/** The shortest list: `[0, 1, 2, 5]` → `0-2,5`. */
export function formatCpuList(cpus: readonly number[]): string {
  const sorted = [...new Set(cpus)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let index = 0; index < sorted.length; index++) {
    const first = sorted[index] as number;
    let last = first;
    while (sorted[index + 1] === last + 1) {
      last++;
      index++;
    }
    parts.push(first === last ? String(first) : `${first}-${last}`);
  }
  return parts.join(",");
}
