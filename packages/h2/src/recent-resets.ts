const REMEMBERED_RESETS = 1024;

/** The streams that we reset last: what the peer sent on them before it knew is not an error (RFC 9113, section 5.1). */
export class RecentResets {
  private readonly streamIds = new Uint32Array(REMEMBERED_RESETS);
  private next = 0;

  add(streamId: number): void {
    this.streamIds[this.next] = streamId;
    this.next = (this.next + 1) % REMEMBERED_RESETS;
  }

  has(streamId: number): boolean {
    return this.streamIds.includes(streamId);
  }
}
