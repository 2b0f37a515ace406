import { CLOSED, CONSUMER_GONE, DRAINING } from "../../src/shared/ring-protocol.ts";
import type { RingShape } from "../../src/shared/ring-protocol.ts";
import type { Thread } from "./atomic-steps.ts";
import type { ModelMemory } from "./memory.ts";
import type { Protocol } from "./protocol.ts";
import type { RingWorld } from "./ring-world.ts";

/** `buries`: once a thread was killed; `buriesAgain`: as whoever does not know of the first time. */
export interface OwnerState {
  phase: "ends" | "waits" | "buries" | "buriesAgain" | "done";
}

/** Ends the ring, at any time. */
export function endingThread(
  protocol: Protocol,
  ring: RingShape,
  control: Int32Array,
  end: "drain" | "close" | undefined,
): Thread<OwnerState, RingWorld> {
  return {
    name: "owner",
    initial: { phase: end === undefined ? "done" : "ends" },
    events: ({ phase }) => (phase === "ends" ? [{ name: end as string, when: "always", wait: 0 }] : []),
    handle: (state) => {
      protocol.raiseLifecycle(control, ring, end === "drain" ? DRAINING : CLOSED);
      state.phase = "done";
    },
  };
}

/** Tells the ring of a thread that was killed; with `numbers`, twice of its id. */
export function buryingThread(
  protocol: Protocol,
  ring: RingShape,
  { control, numbers }: ModelMemory,
  mortal: number | "consumer" | undefined,
  reusesNumbers: boolean,
): Thread<OwnerState, RingWorld> {
  return {
    name: "undertaker",
    initial: { phase: "waits" },
    events: ({ phase }) =>
      phase === "buries" || phase === "buriesAgain" ? [{ name: `buries ${mortal}`, when: "always", wait: 0 }] : [],
    handle: (state) => {
      if (mortal === "consumer") {
        protocol.raiseLifecycle(control, ring, CONSUMER_GONE);
      } else {
        bury(mortal as number);
      }
      state.phase = reusesNumbers && state.phase === "buries" ? "buriesAgain" : "done";
    },
  };

  function bury(producer: number): void {
    if (reusesNumbers) {
      // The first with its number: the id is the same.
      protocol.buryId(control, ring, numbers, producer);
    } else {
      protocol.buryProducer(control, ring, producer);
    }
  }
}
