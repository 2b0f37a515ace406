import net from "node:net";
import tls from "node:tls";

/** A request of 128 examples comes in one read; more would not stay in a core's cache. */
const READ_BYTES = 256 * 1024;

/** Bytes that a socket has read: `buffer[0, end)`, valid until the callback returns. */
export type OnLentRead = (buffer: Buffer, end: number) => void;

/** What a handle of Node's must have; it is undocumented, and so is looked for. */
interface ReadingHandle {
  useUserBuffer(buffer: Uint8Array): void;
}

let shared: Buffer | undefined;

/**
 * The `onread` option of `net.connect`, with one buffer for all sockets of this thread: a read is handed over before the next
 * one can begin. Without it each read gets 64 KiB of its own, and the garbage collector has to run every few hundred reads.
 * Undefined where reads do not work that way (Windows may start one before its octets are there).
 */
export function lentReadOption(onRead: OnLentRead): net.OnReadOpts | undefined {
  if (process.platform === "win32") return undefined;
  shared ??= Buffer.allocUnsafeSlow(READ_BYTES);
  return {
    buffer: shared,
    callback(bytesRead, buffer) {
      onRead(buffer as Buffer, bytesRead);
      return true;
    },
  };
}

/**
 * A socket in the place of one that a `net.Server` has accepted, whose reads are lent: Node offers that for sockets that
 * connect only. The accepted one keeps its place in the server's account, and both close together. Undefined if it cannot be
 * done (TLS, Windows, a handle that is not known): then the accepted one is as it was.
 */
export function lendReadsOf(accepted: net.Socket, onRead: OnLentRead): net.Socket | undefined {
  const owner = accepted as unknown as { _handle: Partial<ReadingHandle> | null };
  const handle = owner._handle;
  const isKnown = accepted.constructor === net.Socket && typeof handle?.useUserBuffer === "function";
  if (!isKnown || accepted instanceof tls.TLSSocket || accepted.readableLength > 0 || accepted.writableLength > 0)
    return undefined;
  const onread = lentReadOption(onRead);
  if (onread === undefined) return undefined;
  owner._handle = null;
  const lending = new net.Socket({ handle, onread } as net.SocketConstructorOpts);
  accepted.once("close", () => lending.destroy());
  lending.once("close", () => accepted.destroy());
  return lending;
}
