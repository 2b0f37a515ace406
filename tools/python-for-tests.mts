/** Vitest global setup: tests that need Python find its interpreter, with the pinned packages, in `DLRM_PYTHON`. */
export default async function setup(): Promise<void> {
  // Filled in by the Python arm.
}
