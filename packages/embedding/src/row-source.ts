/**
 * Where the rows of a table come from: a file, from `offset` on, or bytes that are given. A kernel never sees this: a session reads or
 * maps rows when it opens, and from then on a row is an address.
 *
 * Rows that stay on another machine, behind a cache of hot ones, are a further kind here, and its session's work: between the check of
 * ids and the pooling, when all rows of a call are known and none has been read, it brings those that are missing into its cache, whose
 * slots are the addresses that are pooled. (In the native kernel that is `resolve_block`.) Nothing above sessions changes for it but that
 * gathering takes a promise.
 */
export type RowSource =
  | { readonly kind: "file"; readonly path: string; readonly offset: number }
  | { readonly kind: "memory"; readonly bytes: Uint8Array };
