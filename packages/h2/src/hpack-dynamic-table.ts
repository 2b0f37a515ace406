/** What each entry costs beside its octets (RFC 7541, section 4.1). */
export const ENTRY_OVERHEAD_BYTES = 32;

const emptyRing: readonly string[] = Array.from({ length: 16 }, () => "");

/**
 * The dynamic table of HPACK (RFC 7541, section 2.3.2): newest first, bounded in octets, evicting the oldest.
 *
 * Invariants: `bytes` is the sum of the entries' sizes; `bytes <= maxBytes`; `version` grows with each change, so that
 * anything derived from the table is valid exactly while the version is the same.
 */
export class HpackDynamicTable {
  // A ring: the newest entry stands at `head`, entry i at (head + i) modulo the capacity, a power of two.
  private names: string[] = emptyRing.slice();
  private values: string[] = emptyRing.slice();
  private head = 0;
  private count = 0;
  private bytes = 0;
  maxBytes: number;
  version = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get length(): number {
    return this.count;
  }

  get sizeBytes(): number {
    return this.bytes;
  }

  /** `index` 0 is the newest entry; the caller has checked it against `length`. */
  nameAt(index: number): string {
    return this.names[(this.head + index) & (this.names.length - 1)] as string;
  }

  valueAt(index: number): string {
    return this.values[(this.head + index) & (this.values.length - 1)] as string;
  }

  /** Index of the entry with this name and value; else -1 - (index of one with this name); else undefined. */
  find(name: string, value: string): number | undefined {
    let sameName: number | undefined;
    for (let index = 0; index < this.count; index++) {
      if (this.nameAt(index) !== name) continue;
      if (this.valueAt(index) === value) return index;
      sameName ??= -1 - index;
    }
    return sameName;
  }

  /** An entry larger than the table empties it and is not added (section 4.4). */
  add(name: string, value: string): void {
    const size = name.length + value.length + ENTRY_OVERHEAD_BYTES;
    this.version += 1;
    this.evictDownTo(this.maxBytes - size);
    if (size > this.maxBytes) return;
    if (this.count === this.names.length) this.grow();
    this.head = (this.head - 1) & (this.names.length - 1);
    this.names[this.head] = name;
    this.values[this.head] = value;
    this.count += 1;
    this.bytes += size;
  }

  resize(maxBytes: number): void {
    this.version += 1;
    this.maxBytes = maxBytes;
    this.evictDownTo(maxBytes);
  }

  private evictDownTo(bytes: number): void {
    while (this.count > 0 && this.bytes > bytes) {
      const oldest = (this.head + this.count - 1) & (this.names.length - 1);
      this.bytes -=
        (this.names[oldest] as string).length + (this.values[oldest] as string).length + ENTRY_OVERHEAD_BYTES;
      this.names[oldest] = "";
      this.values[oldest] = "";
      this.count -= 1;
    }
  }

  private grow(): void {
    const capacity = this.names.length * 2;
    const inOrder = (from: string[]): string[] =>
      Array.from({ length: capacity }, (_, index) =>
        index < this.count ? (from[(this.head + index) & (from.length - 1)] as string) : "",
      );
    this.names = inOrder(this.names);
    this.values = inOrder(this.values);
    this.head = 0;
  }
}
