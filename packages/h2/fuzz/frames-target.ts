import assert from "node:assert/strict";
import {
  data,
  END_STREAM,
  frame,
  headers,
  MemoryPeer,
  PADDED,
  PREFACE,
  requestFields,
  reset,
  settings,
  SETTINGS_ACK,
  uint32,
  windowUpdate,
} from "../test/memory-peer.ts";
import { Http2ClientConnection } from "../src/client-connection.ts";
import type { Http2Connection } from "../src/connection.ts";
import { encodeHeaderBlock, HpackEncoder, type HeaderField } from "../src/hpack-encoder.ts";
import { Http2ServerConnection } from "../src/server-connection.ts";
import type { ConnectionLimits } from "../src/limits.ts";
import type { StreamHandler } from "../src/stream.ts";
import type { Random } from "./random.ts";

const ok = encodeHeaderBlock([[":status", "200"]]);
const trailers = encodeHeaderBlock([["grpc-status", "0"]]);
const request = encodeHeaderBlock(requestFields);

const limits = {
  streamWindowBytes: 3000,
  connectionWindowBytes: 70_000,
  maxConcurrentStreams: 4,
  maxBufferedBytes: 20_000,
  maxQueuedBytes: 20_000,
  controlFrameBurst: 30,
  resetBurst: 10,
};

const moreFields: readonly HeaderField[] = [
  ["te", "trailers"],
  ["content-length", "3"],
  ["content-type", "application/grpc"],
  ["x-long", "y".repeat(200)],
  ["Bad", "z"],
];

/** What a client might send: the preface, and frames most of which are right. */
export function makeClientFrames(random: Random): Buffer {
  const encoder = new HpackEncoder(random.pick([0, 4096]));
  const pieces = [PREFACE, settings(), SETTINGS_ACK];
  const streamId = (): number => 1 + 2 * random.below(6);
  const flags = (): number => (random.once(2) ? END_STREAM : 0);
  for (let count = 1 + random.below(12); count > 0; count--) {
    switch (random.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const fields = [...requestFields, ...moreFields.filter(() => random.once(3))];
        pieces.push(headers(streamId(), flags(), encoder.encode(fields)));
        break;
      }
      case 4:
      case 5:
        pieces.push(data(streamId(), flags(), random.bytes(random.pick([0, 3, 100, 3001]))));
        break;
      case 6: {
        const padding = random.below(20);
        pieces.push(
          data(
            streamId(),
            flags() | PADDED,
            Buffer.concat([Buffer.from([padding]), Buffer.alloc(padding + random.below(9))]),
          ),
        );
        break;
      }
      case 7:
        pieces.push(windowUpdate(random.once(2) ? 0 : streamId(), random.size()));
        break;
      case 8:
        pieces.push(reset(streamId(), random.below(16)));
        break;
      case 9:
        pieces.push(settings([1 + random.below(7), random.size()]));
        break;
      case 10: {
        const id = streamId();
        const block = encoder.encode(requestFields);
        const cut = random.below(block.length);
        pieces.push(frame(1, flags(), id, block.subarray(0, cut)), frame(9, 4, id, block.subarray(cut)));
        break;
      }
      default:
        pieces.push(
          frame(
            random.below(12),
            random.below(256),
            random.once(2) ? 0 : streamId(),
            random.bytes(random.pick([0, 4, 5, 8])),
          ),
        );
    }
  }
  return Buffer.concat(pieces);
}

/** What a server might answer to requests on streams 1 to 7. */
export function makeServerFrames(random: Random): Buffer {
  const pieces = [settings(), SETTINGS_ACK];
  for (let count = 1 + random.below(10); count > 0; count--) {
    const streamId = 1 + 2 * random.below(4);
    const flags = random.once(2) ? END_STREAM : 0;
    const status = random.pick(["200", "103", "101", "x"]);
    pieces.push(
      random.pick([
        headers(streamId, flags, encodeHeaderBlock([[":status", status]])),
        headers(streamId, 0, ok),
        headers(streamId, END_STREAM, trailers),
        data(streamId, flags, random.bytes(random.pick([0, 3, 100]))),
        reset(streamId, random.below(16)),
        windowUpdate(random.pick([0, streamId]), random.size()),
        settings([1 + random.below(7), random.size()]),
        frame(7, 0, 0, uint32(random.below(9), random.below(14))),
        frame(5, 4, streamId, uint32(2)),
      ]),
    );
  }
  return Buffer.concat(pieces);
}

function server(
  ofConnection: Partial<ConnectionLimits>,
  pauses: boolean,
  readsAreLent: boolean,
): MemoryPeer<Http2ServerConnection> {
  const whole: StreamHandler = {
    body: "whole",
    maxBodyBytes: 5000,
    onBody: (stream, body) => stream.respond(ok, body, trailers),
  };
  const pieces: StreamHandler = {
    body: "pieces",
    onData(stream, piece) {
      if (!stream.headersSent) stream.sendHeaders(ok);
      stream.sendData(piece);
      if (pauses) stream.pause();
    },
    onEnd: (stream) => stream.respond(ok, undefined, trailers),
    onWritable: (stream) => stream.resume(),
  };
  const throwing: StreamHandler = {
    body: "whole",
    onBody() {
      throw new Error("a bug");
    },
    onReset() {
      throw new Error("another");
    },
  };
  return new MemoryPeer(
    (socket) =>
      new Http2ServerConnection(
        socket,
        { onRequest: (stream) => (stream.id % 8 === 1 ? pieces : stream.id % 8 === 7 ? throwing : whole) },
        { limits: ofConnection, nowMs: () => 0, readsAreLent },
      ),
  );
}

function client(
  ofConnection: Partial<ConnectionLimits>,
  _pauses: boolean,
  readsAreLent: boolean,
): MemoryPeer<Http2ClientConnection> {
  const peer = new MemoryPeer(
    (socket) => new Http2ClientConnection(socket, {}, { limits: ofConnection, nowMs: () => 0, readsAreLent }),
  );
  for (let index = 0; index < 4; index++)
    peer.connection.request(request, Buffer.alloc(index * 1000), { body: "whole" });
  return peer;
}

/** Where every read goes that is lent. */
const lent = Buffer.alloc(65_536);

function run(peer: MemoryPeer<Http2Connection>, reads: readonly Buffer[]): void {
  const { connection } = peer;
  for (const read of reads) {
    if (connection.readsAreLent && read.length <= lent.length) {
      read.copy(lent);
      connection.read(lent, read.length);
      lent.fill(0xdd, 0, read.length);
    } else {
      connection.read(read);
    }
    assert.ok(connection.openStreams <= limits.maxConcurrentStreams);
    assert.ok(connection.bufferedBytes <= connection.limits.maxBufferedBytes);
    assert.ok(connection.queuedBytes <= connection.limits.maxQueuedBytes + 75_000);
  }
  connection.destroy();
  assert.equal(connection.openStreams, 0);
  assert.equal(connection.bufferedBytes, 0);
  assert.equal(connection.queuedBytes, 0);
}

/**
 * Gives the octets to an end of a connection. Whole, with narrow limits: it must not throw and must keep within them. With
 * wide windows, whole and cut into reads that are only lent: what it sends must be the same. Returns what happened, in short.
 */
function check(
  make: (
    ofConnection: Partial<ConnectionLimits>,
    pauses: boolean,
    readsAreLent: boolean,
  ) => MemoryPeer<Http2Connection>,
  input: Buffer,
  cuts: Random,
): string {
  const narrow = make(limits, true, false);
  run(narrow, [input]);
  const wide = { maxConcurrentStreams: limits.maxConcurrentStreams, controlFrameBurst: 30, resetBurst: 10 };
  const whole = make(wide, false, false);
  run(whole, [input]);
  const reads: Buffer[] = [];
  for (let at = 0; at < input.length;) {
    const length = 1 + cuts.below(cuts.pick([4, 40, 400]));
    reads.push(Buffer.from(input.subarray(at, at + length)));
    at += length;
  }
  const cut = make(wide, false, true);
  run(cut, reads);
  assert.equal(sentBy(cut), sentBy(whole));
  const { goaway } = narrow;
  const types = [...new Set(narrow.socket.frames.map((each) => each.type))].sort((a, b) => a - b);
  return `${types.join()} ${goaway?.errorCode} ${goaway?.message.replaceAll(/\d+/g, "n")}`;
}

/**
 * All that was sent, whatever the reads that caused it: bodies by stream, and frames but for WINDOW_UPDATE. What was answered
 * on a stream before a mistake of the peer's ended it depends on how much of its data had come, and is left out.
 */
function sentBy(peer: MemoryPeer<Http2Connection>): string {
  const bodies = new Map<number, string>();
  const { frames } = peer.socket;
  const resetStreams = new Set(frames.filter((each) => each.type === 3).map((each) => each.streamId));
  let text = "";
  for (const { type, flags, streamId, payload } of frames) {
    if (type <= 1 && resetStreams.has(streamId)) continue;
    if (type === 0) bodies.set(streamId, (bodies.get(streamId) ?? "") + payload.toString("hex"));
    else if (type !== 8) text += `${type} ${flags} ${streamId} ${payload.toString("hex")}\n`;
  }
  return text + [...bodies].map(([streamId, body]) => `${streamId}: ${body}`).join("\n");
}

export function checkServer(input: Buffer, cuts: Random): string {
  return check(server, input, cuts);
}

export function checkClient(input: Buffer, cuts: Random): string {
  return check(client, input, cuts);
}
