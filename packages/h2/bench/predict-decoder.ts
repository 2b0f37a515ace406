/** The tensors of one request, one after the other, as they came: what a trivial handler needs of a Predict. */
export class PredictDecoder {
  tensors = 0;
  /** Octets of `elements` in use. */
  bytes = 0;
  elements: Uint8Array = new Uint8Array(1 << 18);
  private source: Uint8Array = new Uint8Array();
  private at = 0;

  /**
   * Decodes a PredictRequest from its wire bytes `source[start, end)`, with no object a tensor: every field is read, and the
   * elements of every tensor are copied out. Throws on bytes that are no PredictRequest.
   */
  decode(source: Uint8Array, start: number, end: number): void {
    this.source = source;
    this.at = start;
    this.tensors = 0;
    this.bytes = 0;
    while (this.at < end) {
      const tag = this.varint();
      if ((tag & 7) !== 2) throw new Error(`unexpected tag ${tag}`);
      const length = this.varint();
      const fieldEnd = this.at + length;
      if (fieldEnd > end) throw new Error("a field is cut off");
      if (tag === 0x12) this.entry(fieldEnd);
      this.at = fieldEnd;
    }
  }

  /** An entry of `inputs`: its key, and a HostBuffer. */
  private entry(end: number): void {
    let nameSum = 0;
    while (this.at < end) {
      const tag = this.varint();
      const fieldEnd = this.varint() + this.at;
      if (fieldEnd > end) throw new Error("an entry is cut off");
      if (tag === 0x0a) {
        for (let at = this.at; at < fieldEnd; at++)
          nameSum = (Math.imul(nameSum, 31) + (this.source[at] as number)) | 0;
      } else if (tag === 0x12) {
        this.hostBuffer(fieldEnd);
      } else {
        throw new Error(`unexpected tag ${tag}`);
      }
      this.at = fieldEnd;
    }
    if (nameSum === 0) throw new Error("a tensor has no name");
    this.tensors += 1;
  }

  private hostBuffer(end: number): void {
    while (this.at < end) {
      const tag = this.varint();
      if (tag === 0x08) {
        this.varint();
        continue;
      }
      const fieldEnd = this.varint() + this.at;
      if (fieldEnd > end) throw new Error("a tensor is cut off");
      if (tag === 0x12) {
        while (this.at < fieldEnd) this.varint();
      } else if (tag === 0x1a) {
        this.copy(fieldEnd);
      } else {
        throw new Error(`unexpected tag ${tag}`);
      }
      this.at = fieldEnd;
    }
  }

  private copy(end: number): void {
    const { source, elements } = this;
    const length = end - this.at;
    if (this.bytes + length > elements.length) throw new Error("more elements than there is room for");
    if (length <= 64) {
      // A loop beats a call into native code for a few ids.
      for (let at = this.at, to = this.bytes; at < end; at++) elements[to++] = source[at] as number;
    } else {
      elements.set(source.subarray(this.at, end), this.bytes);
    }
    this.bytes += length;
  }

  private varint(): number {
    const { source } = this;
    let octet = source[this.at++] as number;
    if (octet < 0x80) return octet;
    let value = octet & 0x7f;
    for (let shift = 7; shift <= 28; shift += 7) {
      octet = source[this.at++] as number;
      value += (octet & 0x7f) * 2 ** shift;
      if (octet < 0x80) return value;
    }
    throw new Error("a number is too large");
  }
}
