/**
 * A decoded header or trailer block: names and values in the order in which they came, one character an octet.
 * Blocks that repeat on a connection are one object, so that what was derived from a block can be kept in `derived`.
 */
export class HeaderBlock {
  /** name, value, name, value, … */
  readonly flat: readonly string[];
  /** For the owner of the block's meaning (a route, say); undefined at first. */
  derived: unknown = undefined;
  /** @internal It was found to be a well-formed request or response; `declaredBytes` is its content-length. */
  checked = false;
  /** @internal */ declaredBytes: number | undefined = undefined;
  /** @internal It was found to be a well-formed trailer. */
  checkedAsTrailer = false;

  constructor(flat: readonly string[]) {
    this.flat = flat;
  }

  /** The first value of a field, by its lower-case name; pseudo-header fields such as `:path` too. */
  get(name: string): string | undefined {
    const { flat } = this;
    for (let at = 0; at < flat.length; at += 2) {
      if (flat[at] === name) return flat[at + 1];
    }
    return undefined;
  }

  *[Symbol.iterator](): IterableIterator<[name: string, value: string]> {
    for (let at = 0; at < this.flat.length; at += 2) yield [this.flat[at] as string, this.flat[at + 1] as string];
  }
}
