import { PREFACE } from "../test/memory-peer.ts";
import { mutate } from "./mutate.ts";
import type { Random } from "./random.ts";

const HEADER_BYTES = 9;
const FLAGS = [0x1, 0x4, 0x8, 0x20];

/**
 * Changes that leave the octets a sequence of frames, so that what comes behind the change is still read as what it was:
 * frames left out, doubled, moved, taken from another input, cut in two, with other flags or streams, or other payloads.
 */
export function mutateFrames(random: Random, input: Buffer, other: Buffer): Buffer {
  const frames = framesOf(input);
  const others = framesOf(other);
  for (let times = 1 + random.below(3); times > 0 && frames.length > 0; times--) {
    const at = random.below(frames.length);
    const frame = frames[at] as Buffer;
    switch (random.below(9)) {
      case 0:
        frames.splice(at, 1);
        break;
      case 1:
        frames.splice(random.below(frames.length), 0, frame);
        break;
      case 2:
        frames.splice(at, 1);
        frames.splice(random.below(frames.length + 1), 0, frame);
        break;
      case 3:
        if (others.length > 0) frames.splice(at, 0, random.pick(others));
        break;
      case 4:
        frames[at] = changed(frame, 4, (flags) => flags ^ random.pick(FLAGS));
        break;
      case 5:
        frames[at] = changed(frame, 8, () => random.below(14));
        break;
      case 6:
        frames[at] = changed(frame, 3, () => random.below(11));
        break;
      case 7:
        frames.splice(at, 1, ...cutInTwo(random, frame));
        break;
      default:
        frames[at] = withPayload(frame, mutate(random, frame.subarray(HEADER_BYTES), other));
    }
  }
  return Buffer.concat(input.subarray(0, PREFACE.length).equals(PREFACE) ? [PREFACE, ...frames] : frames);
}

/** The frames of an input, the last of which may be cut off. */
function framesOf(input: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = input.subarray(0, PREFACE.length).equals(PREFACE) ? PREFACE.length : 0; at < input.length;) {
    const end = at + HEADER_BYTES + (at + 3 <= input.length ? input.readUIntBE(at, 3) : 0);
    frames.push(input.subarray(at, end));
    at = end;
  }
  return frames;
}

function changed(frame: Buffer, at: number, change: (octet: number) => number): Buffer {
  const copy = Buffer.from(frame);
  if (at < copy.length) copy[at] = change(copy[at] as number);
  return copy;
}

function withPayload(frame: Buffer, payload: Buffer): Buffer {
  if (frame.length < HEADER_BYTES) return frame;
  const copy = Buffer.concat([frame.subarray(0, HEADER_BYTES), payload]);
  copy.writeUIntBE(payload.length, 0, 3);
  return copy;
}

/** Two frames in the place of one: HEADERS go on as CONTINUATION, and of others only the second keeps its flags. */
function cutInTwo(random: Random, frame: Buffer): Buffer[] {
  if (frame.length < HEADER_BYTES + 2) return [frame];
  const cut = HEADER_BYTES + random.below(frame.length - HEADER_BYTES);
  const isHeaders = frame[3] === 1;
  const keptFlags = isHeaders ? 0x29 : 0;
  const first = changed(withPayload(frame, frame.subarray(HEADER_BYTES, cut)), 4, (flags) => flags & keptFlags);
  const second = withPayload(frame, frame.subarray(cut));
  if (!isHeaders) return [first, second];
  return [
    first,
    changed(
      changed(second, 3, () => 9),
      4,
      (flags) => flags & 0x4,
    ),
  ];
}
