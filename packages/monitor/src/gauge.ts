/**
 * A further quantity to sample with the process tree, such as a GPU's utilisation or memory. Read synchronously at each
 * sample, so it must be quick: a gauge that needs a slow source (nvidia-smi) keeps it running beside and returns its
 * latest value.
 */
export interface Gauge {
  /** With its unit, such as `gpu0MemoryBytes`. */
  readonly name: string;
  /** The value now; undefined while there is none. */
  read(): number | undefined;
  /** Called when the monitor stops. */
  close?(): void;
}
