import * as numbers from "../../src/shared/producer-numbers.ts";
import * as protocol from "../../src/shared/ring-protocol.ts";

/** The functions under test, or a variant of them. */
export type Protocol = typeof protocol & typeof numbers;

// Both have a `buryProducer`: that of an id is `buryId`.
export const PROTOCOL: Protocol = { ...numbers, ...protocol };
