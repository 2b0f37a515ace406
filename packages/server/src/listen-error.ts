import { ServerError } from "./server-error.ts";

/** Of these the address is to blame, not the port. */
const HOST_CODES: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_AGAIN", "EADDRNOTAVAIL", "EINVAL"]);

/** For the rejection of a `listen` on `host`: a `startup_failed` that names the flag to change. */
export function cannotListen(host: string, port: number, portFlag: string): (error: unknown) => never {
  return (error) => {
    const { code, message } = error as NodeJS.ErrnoException;
    if (typeof code !== "string" || error instanceof ServerError) throw error;
    const flag = HOST_CODES.has(code) ? "--host" : portFlag;
    throw new ServerError("startup_failed", `cannot listen on ${host}, port ${port} (${flag}): ${message}`, {
      cause: error,
    });
  };
}
