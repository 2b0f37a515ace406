/** Items that came at one time. One object for all of them: a number of its own would be 16 bytes more an item. */
export interface Arrival {
  readonly atMs: number;
  /** Those among them that the policy has not been told of, and their summed size. */
  items: number;
  size: number;
}
