/**
 * The lock-free protocol of the shared ring: every change of its control words is in this file, so that the
 * interleaving test can run this very code step by step. docs/shared-ring.md draws the states.
 *
 * A batch has a sequence number; it lives in slot `sequence % slots`. Control words are 32-bit:
 *
 * - The slot's word: generation (sequence modulo 2^16) in the upper half, then the closed bit, then the rows reserved.
 *   It only ever goes: prepared (generation, no rows) → rows grow → closed → prepared for the sequence one ring later.
 * - A cell for each slot and producer: attempts in progress in the upper half, rows committed in the lower. Only its
 *   producer raises it; the consumer takes the committed rows out once the batch is complete.
 *
 * Invariants:
 * 1. Rows are handed out only in the slot of the open sequence, while its word is not closed: each row to one producer.
 * 2. A producer that holds rows it has not committed has an attempt in progress in that slot's cell.
 * 3. The consumer reads inputs only when all rows are committed, or no living producer has an attempt in progress.
 * 4. A slot is prepared anew only when its batch is published and every producer with rows in it has released it, or is dead.
 * 5. The open sequence moves by one, and only onto a prepared slot.
 */

/** Words of the header. */
export const OPEN_SEQUENCE = 0;
/** 1 while the consumer sleeps and wants to be woken. */
export const SLEEPING = 1;
/** Rows in the open batch from which a commit wakes the consumer. */
export const WAKE_AT_ROWS = 2;
export const LIFECYCLE = 3;
/** A bit for each producer that is gone. */
export const DEAD = 4;
/** A bit for each producer number that is in use. */
export const JOINED = 5;
/** 1 while the consumer, when it has nothing to do, looks for rows before it sleeps, and runs them quickly. Only a hint. */
export const CONSUMER_LOOKS = 6;
export const HEADER_WORDS = 16;

/** Values of `LIFECYCLE`; it only rises. */
export const OPEN = 0;
export const DRAINING = 1;
export const CLOSED = 2;
export const CONSUMER_GONE = 3;

/** Words of a slot, then come the cells, each in a cache line of its own. */
export const WORD = 0;
/** Sequence + 1 of the last batch that was published from this slot. */
export const PUBLISHED = 1;
/** A bit for each producer that has yet to read its results. */
export const READERS = 2;
/** Outcome of the published batch. */
export const STATUS = 3;
/** Rises when a batch that is closed may have become complete. */
export const COMPLETION = 4;
/** Rows whose callers have left. */
export const ABANDONED = 5;
export const SLOT_WORDS = 16;
export const CELL_WORDS = 16;

export const STATUS_OK = 0;
export const STATUS_FAILED = 1;
export const STATUS_TIMED_OUT = 2;

/** What `reserve` gives instead of a place when every slot is taken. */
export const FULL = -1;

const CLOSED_BIT = 1 << 15;
const ROWS_MASK = CLOSED_BIT - 1;
const ATTEMPT = 1 << 16;
const COMMITTED_MASK = ATTEMPT - 1;
const GENERATION_MASK = 0xffff;

/** Rows of a batch must fit the word. */
export const MAX_ROWS: number = ROWS_MASK;
/** A bit each, the sign bit left out. */
export const MAX_PRODUCERS = 31;

/** The numbers that a ring is made with. */
export interface RingShape {
  readonly slots: number;
  readonly producers: number;
  /** Rows of a slot: the largest batch. */
  readonly rows: number;
}

export function slotAt(ring: RingShape, slot: number): number {
  return HEADER_WORDS + slot * (SLOT_WORDS + ring.producers * CELL_WORDS);
}

export function controlWords(ring: RingShape): number {
  return slotAt(ring, ring.slots);
}

/** Writes the state of a new ring into zeroed memory, before anyone else has it. */
export function initialize(control: Int32Array, ring: RingShape): void {
  for (let slot = 0; slot < ring.slots; slot += 1) {
    control[slotAt(ring, slot) + WORD] = preparedWord(slot);
  }
}

export function rowsOf(word: number): number {
  return word & ROWS_MASK;
}

export function isClosed(word: number): boolean {
  return (word & CLOSED_BIT) !== 0;
}

function preparedWord(sequence: number): number {
  return (sequence & GENERATION_MASK) << 16;
}

function sameGeneration(word: number, sequence: number): boolean {
  return word >>> 16 === (sequence & GENERATION_MASK);
}

/** Whether a batch takes no more rows: it is closed, or its slot is already prepared for the one after. */
function isOver(word: number, sequence: number): boolean {
  return isClosed(word) || !sameGeneration(word, sequence);
}

/** A place packed into one integer, so that nothing is allocated for it. */
export function placeOf(slot: number, row: number): number {
  return slot * (MAX_ROWS + 1) + row;
}

export function slotOfPlace(place: number): number {
  return Math.floor(place / (MAX_ROWS + 1));
}

export function rowOfPlace(place: number): number {
  return place % (MAX_ROWS + 1);
}

/**
 * Producer: takes `size` rows of the open batch, closing it and going on to the next where they do not fit. Returns their
 * place, or `FULL`. What was reserved must be committed.
 */
export function reserve(control: Int32Array, ring: RingShape, producer: number, size: number): number {
  for (;;) {
    const sequence = Atomics.load(control, OPEN_SEQUENCE);
    const slot = (sequence >>> 0) % ring.slots;
    const at = slotAt(ring, slot);
    const word = Atomics.load(control, at + WORD);
    if (!isOver(word, sequence)) {
      if (rowsOf(word) + size <= ring.rows) {
        const cell = at + SLOT_WORDS + producer * CELL_WORDS;
        // Said before the rows are taken: were it said after, a producer that dies in between would hold rows that
        // nobody can tell from those of a living one.
        Atomics.add(control, cell, ATTEMPT);
        if (Atomics.compareExchange(control, at + WORD, word, word + size) === word) {
          return placeOf(slot, rowsOf(word));
        }
        Atomics.sub(control, cell, ATTEMPT);
        if (isClosed(Atomics.load(control, at + WORD))) {
          // If rows of a dead producer are missing there, the consumer waits until no attempt is in progress.
          wakeForCompletion(control, at);
        }
        continue;
      }
      if (Atomics.compareExchange(control, at + WORD, word, word | CLOSED_BIT) !== word) {
        continue;
      }
      wakeConsumer(control);
    }
    if (!advance(control, ring, sequence) && Atomics.load(control, OPEN_SEQUENCE) === sequence) {
      return FULL;
    }
  }
}

/**
 * Producer: whether there was no room when `OPEN_SEQUENCE` was `sequence`, so that it will change, with a notification,
 * when there is.
 */
export function isFullAt(control: Int32Array, ring: RingShape, sequence: number): boolean {
  const word = Atomics.load(control, slotAt(ring, (sequence >>> 0) % ring.slots) + WORD);
  // Who closed the slot, or prepares the next one, opens that; until then nobody can reserve.
  return isOver(word, sequence);
}

/** Producer: says that nobody waits for rows any more that it has committed and not released. */
export function abandon(control: Int32Array, ring: RingShape, slot: number, size: number): void {
  Atomics.add(control, slotAt(ring, slot) + ABANDONED, size);
}

/** Producer: says that reserved rows are written. */
export function commit(control: Int32Array, ring: RingShape, producer: number, slot: number, size: number): void {
  const at = slotAt(ring, slot);
  Atomics.add(control, at + SLOT_WORDS + producer * CELL_WORDS, size - ATTEMPT);
  const word = Atomics.load(control, at + WORD);
  if (isClosed(word)) {
    wakeForCompletion(control, at);
  } else if (Atomics.load(control, SLEEPING) === 1 && rowsOf(word) >= Atomics.load(control, WAKE_AT_ROWS)) {
    wakeConsumer(control);
  }
}

/** Wakes the consumer if it waits for the rows of the closed batch whose slot's words are at `at`. */
function wakeForCompletion(control: Int32Array, at: number): void {
  Atomics.add(control, at + COMPLETION, 1);
  Atomics.notify(control, at + COMPLETION);
}

/** Wakes the consumer if it sleeps; of those who try at a time, one makes the call. */
export function wakeConsumer(control: Int32Array): void {
  if (Atomics.compareExchange(control, SLEEPING, 1, 0) === 1) {
    Atomics.notify(control, SLEEPING);
  }
}

/** Opens the next batch, after that of `sequence` is closed, if its slot is prepared. */
export function advance(control: Int32Array, ring: RingShape, sequence: number): boolean {
  const next = (sequence + 1) | 0;
  const at = slotAt(ring, (next >>> 0) % ring.slots);
  if (Atomics.load(control, at + WORD) !== preparedWord(next)) {
    return false;
  }
  if (Atomics.compareExchange(control, OPEN_SEQUENCE, sequence, next) === sequence) {
    // Those that found the ring full wait for this word.
    Atomics.notify(control, OPEN_SEQUENCE);
  }
  return true;
}

/** Consumer: the word of a batch; as just prepared where its slot still belongs to an earlier one. */
export function wordAt(control: Int32Array, ring: RingShape, sequence: number): number {
  const word = Atomics.load(control, slotAt(ring, (sequence >>> 0) % ring.slots) + WORD);
  return sameGeneration(word, sequence) ? word : preparedWord(sequence);
}

/** Consumer: closes the batch of `sequence`, if it is not, and opens the next. Returns its rows. */
export function close(control: Int32Array, ring: RingShape, sequence: number): number {
  const at = slotAt(ring, (sequence >>> 0) % ring.slots);
  for (;;) {
    const word = Atomics.load(control, at + WORD);
    if (isClosed(word) || Atomics.compareExchange(control, at + WORD, word, word | CLOSED_BIT) === word) {
      advance(control, ring, sequence);
      return rowsOf(word);
    }
  }
}

/**
 * Consumer: whether all rows of a closed batch are written that ever will be. Rows of a dead producer may be missing;
 * they hold anything.
 */
export function isComplete(control: Int32Array, ring: RingShape, slot: number, rows: number): boolean {
  const dead = Atomics.load(control, DEAD);
  const at = slotAt(ring, slot) + SLOT_WORDS;
  let committed = 0;
  let attempts = 0;
  for (let producer = 0; producer < ring.producers; producer += 1) {
    const cell = Atomics.load(control, at + producer * CELL_WORDS);
    committed += cell & COMMITTED_MASK;
    attempts += (dead & (1 << producer)) === 0 ? cell >>> 16 : 0;
  }
  return committed === rows || attempts === 0;
}

/** Consumer: takes the committed rows out of a complete batch's cells. Returns a bit for each producer that had some. */
export function takeParticipants(control: Int32Array, ring: RingShape, slot: number): number {
  const at = slotAt(ring, slot) + SLOT_WORDS;
  let participants = 0;
  for (let producer = 0; producer < ring.producers; producer += 1) {
    const cell = at + producer * CELL_WORDS;
    const committed = Atomics.load(control, cell) & COMMITTED_MASK;
    if (committed > 0) {
      participants |= 1 << producer;
      // Not a store of 0: its producer may just be trying, in vain, to take rows here.
      Atomics.sub(control, cell, committed);
    }
  }
  return participants;
}

/** Consumer: hands the results of a batch to the participants. */
export function publish(
  control: Int32Array,
  ring: RingShape,
  sequence: number,
  participants: number,
  status: number,
): void {
  const slot = (sequence >>> 0) % ring.slots;
  const at = slotAt(ring, slot);
  const readers = participants & ~Atomics.load(control, DEAD);
  Atomics.store(control, at + STATUS, status);
  Atomics.store(control, at + READERS, readers);
  Atomics.store(control, at + PUBLISHED, (sequence + 1) | 0);
  Atomics.notify(control, at + PUBLISHED);
  // One that died since `DEAD` was read was not in `READERS` when its death was worked off, or was and nothing was published.
  const died = readers & Atomics.load(control, DEAD);
  if (died !== 0) {
    Atomics.and(control, at + READERS, ~died);
  }
  if (readers === 0 || died !== 0) {
    prepare(control, ring, slot);
  }
}

/** Producer: has read its results of a published batch. The last one prepares the slot anew. */
export function release(control: Int32Array, ring: RingShape, producer: number, slot: number): void {
  const bit = 1 << producer;
  const readers = Atomics.and(control, slotAt(ring, slot) + READERS, ~bit);
  if (readers === bit) {
    prepare(control, ring, slot);
  }
}

/**
 * Makes a slot ready for its next batch, and opens that if it is the next, if the batch is published and all have left it.
 * Does nothing otherwise: who buries a producer may come at any time, and others may do the same or have done it.
 */
function prepare(control: Int32Array, ring: RingShape, slot: number): void {
  const at = slotAt(ring, slot);
  const word = Atomics.load(control, at + WORD);
  // Readers are asked for last: they only become fewer from when the batch of this word is published until the word changes.
  const isPublished = isClosed(word) && sameGeneration(word, Atomics.load(control, at + PUBLISHED) - 1);
  if (!isPublished || Atomics.load(control, at + READERS) !== 0) {
    return;
  }
  Atomics.store(control, at + ABANDONED, 0);
  if (Atomics.compareExchange(control, at + WORD, word, preparedWord((word >>> 16) + ring.slots)) === word) {
    advanceIfOver(control, ring);
  }
}

/**
 * Opens the next batch if the open one takes no more rows: who closed it may have found the next slot taken. It may be
 * read and its slot prepared by now, too: batches are not released in their order.
 */
function advanceIfOver(control: Int32Array, ring: RingShape): void {
  const open = Atomics.load(control, OPEN_SEQUENCE);
  if (isOver(Atomics.load(control, slotAt(ring, (open >>> 0) % ring.slots) + WORD), open)) {
    advance(control, ring, open);
  }
}

/**
 * Anyone, once a producer can do nothing more: lets the ring go on without it, and does what it may have left undone
 * between two steps of its last call.
 */
export function buryProducer(control: Int32Array, ring: RingShape, producer: number): void {
  Atomics.or(control, DEAD, 1 << producer);
  for (let slot = 0; slot < ring.slots; slot += 1) {
    const at = slotAt(ring, slot);
    Atomics.and(control, at + READERS, ~(1 << producer));
    // It may have been the last to release a batch, now or before it died, and not have prepared the slot.
    prepare(control, ring, slot);
    wakeForCompletion(control, at);
  }
  // It may have closed the open batch or prepared the next, or have been about to wake someone.
  advanceIfOver(control, ring);
  Atomics.notify(control, OPEN_SEQUENCE);
  Atomics.store(control, SLEEPING, 0);
  Atomics.notify(control, SLEEPING);
}

/** Consumer: false if there is work for it; else true, and it will be woken at `wakeAtRows` rows or a closed batch. */
export function fallAsleep(control: Int32Array, ring: RingShape, sequence: number, wakeAtRows: number): boolean {
  Atomics.store(control, WAKE_AT_ROWS, wakeAtRows);
  Atomics.store(control, SLEEPING, 1);
  // Looked at after saying so: who commits before this look is seen by it, who commits after it sees that we sleep.
  const word = wordAt(control, ring, sequence);
  if (!isClosed(word) && rowsOf(word) < wakeAtRows) {
    return true;
  }
  Atomics.store(control, SLEEPING, 0);
  return false;
}

/** Consumer: says what `CONSUMER_LOOKS` says. */
export function tellLooks(control: Int32Array, looks: boolean): void {
  Atomics.store(control, CONSUMER_LOOKS, looks ? 1 : 0);
}

/** Producer: whether results tend to be there at once. */
export function consumerLooks(control: Int32Array): boolean {
  return Atomics.load(control, CONSUMER_LOOKS) === 1;
}

/** Takes a free producer number, or -1. A number is not given out twice: the dead keep theirs. */
export function join(control: Int32Array, ring: RingShape): number {
  for (;;) {
    const joined = Atomics.load(control, JOINED);
    const producer = 31 - Math.clz32(~joined & (joined + 1));
    if (producer < 0 || producer >= ring.producers) {
      return -1;
    }
    if (Atomics.compareExchange(control, JOINED, joined, joined | (1 << producer)) === joined) {
      return producer;
    }
  }
}

/** Raises the lifecycle; it never falls. */
export function raiseLifecycle(control: Int32Array, ring: RingShape, to: number): void {
  for (;;) {
    const now = Atomics.load(control, LIFECYCLE);
    if (now >= to || Atomics.compareExchange(control, LIFECYCLE, now, to) === now) {
      break;
    }
  }
  wakeConsumer(control);
  Atomics.notify(control, OPEN_SEQUENCE);
  for (let slot = 0; slot < ring.slots; slot += 1) {
    Atomics.notify(control, slotAt(ring, slot) + PUBLISHED);
  }
}
