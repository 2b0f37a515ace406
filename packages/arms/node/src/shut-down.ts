import type { Server } from "@grpc/grpc-js";

const FIRST_RETRY_MS = 50;

/** Refuses new calls, and resolves once those that are in have ended and all connections are closed; by force after `timeoutMs`. */
export function shutDown(server: Server, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    let retry: NodeJS.Timeout | undefined;
    const end = (): void => {
      clearTimeout(retry);
      clearTimeout(force);
      resolve();
    };
    // Waits for nobody: a peer that does not close its side would keep its connection, and tryShutdown, for ever.
    const force = setTimeout(() => {
      server.forceShutdown();
      end();
    }, timeoutMs);
    // Again and again, as an attempt never calls back if it meets a session that is destroyed and not yet closed, which one is for a
    // moment after its client has gone: grpc-js waits for it by `session.close(callback)`, and Node ignores that then.
    const attempt = (retryMs: number): void => {
      retry = setTimeout(attempt, retryMs, retryMs * 2);
      server.tryShutdown(end);
    };
    attempt(FIRST_RETRY_MS);
  });
}
