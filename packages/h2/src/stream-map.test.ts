import { expect, test } from "vitest";
import { StreamMap } from "./stream-map.ts";
import type { Http2Stream } from "./stream.ts";

/** Of a stream the map looks at nothing but its id. */
function streamOf(id: number): Http2Stream {
  return { id } as Http2Stream;
}

function idsOf(map: StreamMap): number[] {
  return map
    .all()
    .map(({ id }) => id)
    .sort((a, b) => a - b);
}

test("finds what was added as it grows", () => {
  const map = new StreamMap();
  const streams = [9, 1, 33, 17, 3, 65, 25].map(streamOf);
  for (const stream of streams) map.add(stream);
  expect(map.size).toBe(7);
  expect(idsOf(map)).toEqual([1, 3, 9, 17, 25, 33, 65]);
  for (const stream of streams) expect(map.get(stream.id)).toBe(stream);
  expect(map.get(5)).toBeUndefined();
});

test("finds those whose places collide after one of them is gone, across the end of the places", () => {
  // Of 8 places, all of these want the last one; the table holds 4 before it grows.
  const [first, second, third] = [15, 31, 47].map(streamOf) as [Http2Stream, Http2Stream, Http2Stream];
  for (const gone of [first, second, third]) {
    const map = new StreamMap();
    for (const stream of [first, second, third]) map.add(stream);
    map.delete(gone);
    expect(map.size).toBe(2);
    for (const stream of [first, second, third]) expect(map.get(stream.id)).toBe(stream === gone ? undefined : stream);
  }
});

test("a stream in its own place stays there when one before it is gone", () => {
  const map = new StreamMap();
  const [first, collides, own] = [1, 17, 5].map(streamOf) as [Http2Stream, Http2Stream, Http2Stream];
  for (const stream of [first, collides, own]) map.add(stream);
  map.delete(first);
  expect(map.get(17)).toBe(collides);
  expect(map.get(5)).toBe(own);
  expect(map.get(1)).toBeUndefined();
});

test("takes no notice of a stream that is not there, even if another has its id", () => {
  const map = new StreamMap();
  const stream = streamOf(7);
  map.add(stream);
  map.delete(streamOf(7));
  map.delete(streamOf(23));
  expect(map.get(7)).toBe(stream);
  expect(map.size).toBe(1);
});

test("is empty after many streams, and takes as many again", () => {
  const map = new StreamMap();
  const streams = Array.from({ length: 100 }, (_, index) => streamOf(2 * index + 1));
  for (let round = 0; round < 2; round++) {
    for (const stream of streams) map.add(stream);
    expect(map.size).toBe(100);
    expect(map.get(199)).toBe(streams[99]);
    for (const stream of streams) map.delete(stream);
    expect(map.size).toBe(0);
    expect(map.all()).toEqual([]);
    expect(map.get(199)).toBeUndefined();
  }
});

test("is as a Map through many streams that come and go out of order", () => {
  const map = new StreamMap();
  const reference = new Map<number, Http2Stream>();
  let random = 1;
  let nextId = 1;
  for (let step = 0; step < 20_000; step++) {
    random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
    const open = [...reference.values()];
    if (open.length < 40 && (open.length === 0 || (random >>> 16) % 5 < 3)) {
      const stream = streamOf(nextId);
      nextId += 2 * (1 + ((random >>> 20) % 3));
      map.add(stream);
      reference.set(stream.id, stream);
    } else {
      const stream = open[(random >>> 16) % open.length] as Http2Stream;
      map.delete(stream);
      reference.delete(stream.id);
    }
    expect(map.size).toBe(reference.size);
    if (step % 100 === 0) expect(idsOf(map)).toEqual([...reference.keys()]);
  }
});
