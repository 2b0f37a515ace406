/** In words, of anything that can be thrown. */
export function reasonOf(cause: unknown): string {
  try {
    return cause instanceof Error ? cause.message : String(cause);
  } catch {
    return "what was thrown cannot be shown";
  }
}
