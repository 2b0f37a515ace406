import { OPEN_SEQUENCE, PUBLISHED, WORD } from "../../src/shared/ring-protocol.ts";
import { CODE_MASK, producerOf } from "./item-codes.ts";
import type { StateLayout } from "./state-layout.ts";

/** Flags of a slot: its batch is being run; it was complete, which it stays when its cells are emptied. */
export const RUNNING = 1;
export const COMPLETE = 2;

export type SlotState = "prepared" | "open" | "closed" | "complete" | "running" | "published" | "broken";

/** The edges as docs/shared-ring.md draws them. A batch that is closed when all is committed is complete at once. */
export const SLOT_EDGES: Readonly<Record<SlotState, readonly SlotState[]>> = {
  prepared: ["open"],
  open: ["closed", "complete"],
  closed: ["complete"],
  complete: ["running", "published"],
  running: ["published"],
  published: ["prepared"],
  broken: [],
};

/** The state of a slot as its words and the run of its batch tell it. */
export function slotStateOf(layout: StateLayout, state: Int32Array, slot: number): SlotState {
  const word = state[layout.slot(slot, WORD)] as number;
  const sequence = word >>> 16;
  const rows = word & 0x7fff;
  if ((word & 0x8000) === 0) {
    const open = state[layout.control(OPEN_SEQUENCE)] as number;
    return sequence === open ? "open" : sequence > open && rows === 0 ? "prepared" : "broken";
  }
  if (state[layout.slot(slot, PUBLISHED)] === sequence + 1) {
    return "published";
  }
  const flags = state[layout.flags(slot)] as number;
  if ((flags & RUNNING) !== 0) {
    return "running";
  }
  return (flags & COMPLETE) !== 0 || misses(layout, state, slot) === 0 ? "complete" : "closed";
}

/** A bit for each number whose living producer has rows there which it has not committed. */
function misses(layout: StateLayout, state: Int32Array, slot: number): number {
  const dead = layout.deadThreads(state);
  let missing = 0;
  for (let producer = 0; producer < layout.ring.producers; producer += 1) {
    let given = 0;
    for (let row = 0; row < layout.ring.rows; row += 1) {
      const owner = producerOf((state[layout.row(slot, row)] as number) & CODE_MASK);
      const isOwner = owner >= 0 && (dead & (1 << owner)) === 0 && layout.numberOf(owner) === producer;
      given += isOwner ? 1 : 0;
    }
    const committed = (state[layout.cell(slot, producer)] as number) & 0xffff;
    missing |= given > committed ? 1 << producer : 0;
  }
  return missing;
}
