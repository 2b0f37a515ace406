import type { Http2Stream } from "./stream.ts";

const LEAST_PLACES = 8;
/** More are given up when the last stream has gone: an idle connection should not take much. */
const MOST_IDLE_PLACES = 64;

/**
 * Streams by their ids: open addressing, in which ids that follow each other stand side by side. A peer that chooses ids
 * which collide makes a look-up as long as its list of open streams, and that has a limit.
 *
 * Not a `Map`: with entries that come and go it makes a new table every few streams, and the old one goes on pointing to the
 * streams that were open then, and to the new table. Once one of them has got among the old objects, the garbage collector takes
 * each next table, with all that those streams hold, for alive, until a full collection.
 *
 * Invariants: the number of places is a power of two, of which at most half are taken; between a stream's own place, `id >> 1`
 * modulo their number, and where it stands no place is empty.
 */
export class StreamMap {
  private places: (Http2Stream | undefined)[] = emptyPlaces(LEAST_PLACES);
  private mask: number = LEAST_PLACES - 1;
  private count = 0;

  get size(): number {
    return this.count;
  }

  get(streamId: number): Http2Stream | undefined {
    const { places, mask } = this;
    for (let at = (streamId >>> 1) & mask; ; at = (at + 1) & mask) {
      const stream = places[at];
      if (stream === undefined || stream.id === streamId) return stream;
    }
  }

  /** The id must not be there. */
  add(stream: Http2Stream): void {
    this.count += 1;
    if (this.count * 2 > this.places.length) this.grow();
    this.place(stream);
  }

  /** Does nothing if it is not there. */
  delete(stream: Http2Stream): void {
    const { places, mask } = this;
    let hole = (stream.id >>> 1) & mask;
    while (places[hole] !== stream) {
      if (places[hole] === undefined) return;
      hole = (hole + 1) & mask;
    }
    this.count -= 1;
    // Those behind it move up, unless that would be before their own place.
    for (let at = (hole + 1) & mask; ; at = (at + 1) & mask) {
      const next = places[at];
      if (next === undefined) break;
      const distance = (at - (next.id >>> 1)) & mask;
      if (distance >= ((at - hole) & mask)) {
        places[hole] = next;
        hole = at;
      }
    }
    places[hole] = undefined;
    if (this.count === 0 && places.length > MOST_IDLE_PLACES) this.replacePlaces(LEAST_PLACES);
  }

  /** All of them as they are now, in any order. */
  all(): Http2Stream[] {
    return this.places.filter((stream) => stream !== undefined);
  }

  private grow(): void {
    const streams = this.all();
    this.replacePlaces(this.places.length * 2);
    for (const stream of streams) this.place(stream);
  }

  private replacePlaces(count: number): void {
    this.places = emptyPlaces(count);
    this.mask = count - 1;
  }

  private place(stream: Http2Stream): void {
    const { places, mask } = this;
    let at = (stream.id >>> 1) & mask;
    while (places[at] !== undefined) at = (at + 1) & mask;
    places[at] = stream;
  }
}

function emptyPlaces(count: number): (Http2Stream | undefined)[] {
  return Array.from({ length: count }, () => undefined);
}
