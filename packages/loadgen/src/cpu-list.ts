/**
 * CPU numbers of a list in the form of taskset and /proc (`0-3,8`, also `0-6:2`), ascending, each once; undefined where
 * the text is no such list.
 */
export function parseCpuList(text: string): number[] | undefined {
  const cpus = new Set<number>();
  for (const part of text.trim().split(",")) {
    const match = /^(\d{1,5})(?:-(\d{1,5})(?::(\d{1,5}))?)?$/.exec(part.trim());
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    const step = match[3] === undefined ? 1 : Number(match[3]);
    if (last < first || step === 0) return undefined;
    for (let cpu = first; cpu <= last; cpu += step) cpus.add(cpu);
  }
  return [...cpus].sort((a, b) => a - b);
}

/** The shortest list with these CPUs: `0-3,8`. */
export function formatCpuList(cpus: readonly number[]): string {
  const ranges: string[] = [];
  const sorted = [...new Set(cpus)].sort((a, b) => a - b);
  for (let i = 0; i < sorted.length;) {
    let end = i;
    while (sorted[end + 1] === (sorted[end] as number) + 1) end++;
    ranges.push(end === i ? `${sorted[i]}` : `${sorted[i]}-${sorted[end]}`);
    i = end + 1;
  }
  return ranges.join(",");
}
