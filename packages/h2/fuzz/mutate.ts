import type { Random } from "./random.ts";

const interesting = [0x00, 0x01, 0x20, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff];

/** A few changes of the kinds that find mistakes in parsers: flipped bits, edge values, pieces left out, doubled or moved. */
export function mutate(random: Random, input: Buffer, other: Buffer): Buffer {
  let bytes = Buffer.from(input);
  for (let times = 1 + random.below(4); times > 0 && bytes.length > 0; times--) {
    const at = random.below(bytes.length);
    switch (random.below(8)) {
      case 0:
        bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
        break;
      case 1:
        bytes[at] = random.pick(interesting);
        break;
      case 2:
        bytes[at] = random.next();
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(16))]);
        break;
      case 4: {
        const piece = bytes.subarray(at, at + 1 + random.below(32));
        const to = random.below(bytes.length);
        bytes = Buffer.concat([bytes.subarray(0, to), piece, bytes.subarray(to)]);
        break;
      }
      case 5:
        bytes = Buffer.concat([bytes.subarray(0, at), random.bytes(random.below(8)), bytes.subarray(at)]);
        break;
      case 6:
        bytes = Buffer.concat([bytes.subarray(0, at), other.subarray(random.below(other.length + 1))]);
        break;
      default:
        bytes = bytes.subarray(0, at);
    }
  }
  return bytes;
}
