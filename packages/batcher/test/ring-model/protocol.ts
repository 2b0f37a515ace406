import * as protocol from "../../src/shared/ring-protocol.ts";

/** The functions under test, or a variant of them. */
export type Protocol = typeof protocol;

export const PROTOCOL: Protocol = protocol;
