import { Code, ConnectError } from "@connectrpc/connect";
import type { HealthState } from "./health-state.ts";

/** The requests, until the server closes, as a client that only waits is no reason to stay, or the call ends (`signal`). */
export async function* whileOpen<Request>(
  requests: AsyncIterable<Request>,
  state: HealthState,
  signal: AbortSignal,
): AsyncGenerator<Request> {
  let isClosed = false;
  /** Ends the wait for the request that is awaited. */
  let stopWaiting = (): void => {};
  void (async (): Promise<void> => {
    while (state.phase !== "closed" && !signal.aborted) await state.changed(signal);
    isClosed = true;
    stopWaiting();
  })();
  const iterator = requests[Symbol.asyncIterator]();
  for (;;) {
    // No race with one promise for all requests: each race would leave its outcome there, for as long as the stream lasts.
    const next = await new Promise<IteratorResult<Request> | undefined>((resolve, reject) => {
      stopWaiting = () => resolve(undefined);
      if (isClosed) stopWaiting();
      else iterator.next().then(resolve, reject);
    });
    if (next === undefined && state.phase !== "closed") throw signal.reason;
    if (next === undefined) throw new ConnectError("the server is shutting down", Code.Unavailable);
    if (next.done === true) return;
    yield next.value;
  }
}
