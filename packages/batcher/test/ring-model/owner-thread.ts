import { CLOSED, CONSUMER_GONE, DRAINING } from "../../src/shared/ring-protocol.ts";
import type { RingShape } from "../../src/shared/ring-protocol.ts";
import type { Thread } from "./atomic-steps.ts";
import type { Protocol } from "./protocol.ts";
import type { RingWorld } from "./ring-world.ts";

/** `buries`: once a thread was killed. */
export interface OwnerState {
  phase: "ends" | "waits" | "buries" | "done";
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

/** Tells the ring of a thread that was killed. */
export function buryingThread(
  protocol: Protocol,
  ring: RingShape,
  control: Int32Array,
  mortal: number | "consumer" | undefined,
): Thread<OwnerState, RingWorld> {
  return {
    name: "undertaker",
    initial: { phase: "waits" },
    events: ({ phase }) => (phase === "buries" ? [{ name: `buries ${mortal}`, when: "always", wait: 0 }] : []),
    handle: (state) => {
      if (mortal === "consumer") {
        protocol.raiseLifecycle(control, ring, CONSUMER_GONE);
      } else {
        protocol.buryProducer(control, ring, mortal as number);
      }
      state.phase = "done";
    },
  };
}
