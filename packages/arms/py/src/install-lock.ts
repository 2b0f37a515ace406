import { randomUUID } from "node:crypto";
import { link, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

const HEARTBEAT_MS = 1_000;
const POLL_MS = 250;
/** A holder that has not touched its lock for this long is gone: killed, or on a machine that was turned off. */
const STALE_MS = 15_000;

/**
 * Runs `work` while holding the lock file `path`, waiting for its holder if there is one. The holder touches the file
 * every second, so the lock of a process that was killed is taken over after 15 s.
 *
 * @param onWait called once if there is somebody to wait for
 * @throws the signal's reason while waiting; what `work` throws
 */
export async function withInstallLock<T>(
  path: string,
  options: { readonly signal: AbortSignal; readonly onWait: () => void },
  work: () => Promise<T>,
): Promise<T> {
  const token = randomUUID();
  await acquire(path, token, options);
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {
      // Taken over or deleted by hand: the work goes on, and its completion marker is what others trust.
    });
  }, HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    if ((await readText(path)) === token) {
      await rm(path, { force: true });
    }
  }
}

async function acquire(
  path: string,
  token: string,
  { signal, onWait }: { readonly signal: AbortSignal; readonly onWait: () => void },
): Promise<void> {
  let said = false;
  for (;;) {
    signal.throwIfAborted();
    try {
      await writeFile(path, token, { flag: "wx" });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
        throw error;
      }
    }
    const holder = await readText(path);
    const touchedMs = await stat(path).then(
      (stats) => stats.mtimeMs,
      () => undefined,
    );
    if (touchedMs === undefined) {
      continue;
    }
    if (Date.now() - touchedMs > STALE_MS) {
      await takeAway(path, holder);
      continue;
    }
    if (!said) {
      said = true;
      onWait();
    }
    await delay(POLL_MS, undefined, { signal });
  }
}

/** Removes the lock if it is still that of `holder`: of two that find a stale one, one may have made its own since. */
export async function takeAway(path: string, holder: string): Promise<void> {
  const moved = `${path}.${randomUUID()}`;
  try {
    await rename(path, moved);
  } catch (error) {
    // The other one was quicker.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  if ((await readText(moved)) !== holder) {
    await link(moved, path).catch(() => {
      // Somebody has made a third one, or there are no links here: as where a lock is deleted by hand.
    });
  }
  await rm(moved, { force: true });
}

/** "" of a file that isn't there or cannot be read. */
function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch(() => "");
}
