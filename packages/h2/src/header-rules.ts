import type { HeaderBlock } from "./header-block.ts";

/** Fields that belong to HTTP/1.1's connection management (RFC 9113, section 8.2.2). */
const connectionSpecific = new Set(["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"]);
// Section 8.2.1: lower case, no control characters, no space, no colon but the first of a pseudo-header field.
const validName = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const validMethod = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const validScheme = /^[a-z][a-z0-9+\-.]*$/i;
// oxlint-disable-next-line no-control-regex -- NUL, CR and LF are what may not be in a value
const forbiddenInValue = /[\0\r\n]/;

/** What is wrong with a request's header block (RFC 9113, sections 8.2 and 8.3), or undefined. */
export function requestHeaderProblem(block: HeaderBlock): string | undefined {
  const { flat } = block;
  let pseudoEnded = false;
  let method: string | undefined;
  let scheme: string | undefined;
  let path: string | undefined;
  let authority: string | undefined;
  let host: string | undefined;
  for (let at = 0; at < flat.length; at += 2) {
    const name = flat[at] as string;
    const value = flat[at + 1] as string;
    if (!name.startsWith(":")) {
      pseudoEnded = true;
      const problem = fieldProblem(name, value);
      if (problem !== undefined) return problem;
      if (name === "host") host = value;
      continue;
    }
    if (pseudoEnded) return `${name} stands after a regular field`;
    if (forbiddenInValue.test(value)) return `the value of ${name} has a forbidden character`;
    let earlier: string | undefined;
    if (name === ":method") [earlier, method] = [method, value];
    else if (name === ":scheme") [earlier, scheme] = [scheme, value];
    else if (name === ":path") [earlier, path] = [path, value];
    else if (name === ":authority") [earlier, authority] = [authority, value];
    else return `unknown pseudo-header field ${JSON.stringify(name)}`;
    if (earlier !== undefined) return `${name} stands twice`;
  }
  if (method === undefined || !validMethod.test(method)) return ":method is missing or malformed";
  if (method === "CONNECT")
    return authority === undefined || scheme !== undefined || path !== undefined ? "a malformed CONNECT" : undefined;
  if (scheme === undefined || !validScheme.test(scheme)) return ":scheme is missing or malformed";
  if (path === undefined || path === "") return ":path is missing or empty";
  if (scheme !== "http" && scheme !== "https") return undefined;
  if (!path.startsWith("/") && !(path === "*" && method === "OPTIONS")) return ":path does not start with a slash";
  // Section 8.3.1: what they name must be one thing, and http and https have no requests to nobody.
  if ((authority ?? host ?? "") === "") return ":authority is missing or empty";
  if (host !== undefined && authority !== undefined && host.toLowerCase() !== authority.toLowerCase())
    return "host differs from :authority";
  return undefined;
}

/** What is wrong with a response's header block, or undefined. */
export function responseHeaderProblem(block: HeaderBlock): string | undefined {
  const { flat } = block;
  const status = flat[1] ?? "";
  if (flat[0] !== ":status" || !/^[1-9][0-9]{2}$/.test(status)) return ":status is missing or is not three digits";
  // Section 8.6: there is nothing to switch to.
  if (status === "101") return ":status is 101";
  for (let at = 2; at < flat.length; at += 2) {
    const problem = fieldProblem(flat[at] as string, flat[at + 1] as string);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** What is wrong with a trailer block (section 8.1: no pseudo-header fields), or undefined. */
export function trailerProblem(block: HeaderBlock): string | undefined {
  if (block.checkedAsTrailer) return undefined;
  const { flat } = block;
  for (let at = 0; at < flat.length; at += 2) {
    const problem = fieldProblem(flat[at] as string, flat[at + 1] as string);
    if (problem !== undefined) return problem;
  }
  block.checkedAsTrailer = true;
  return undefined;
}

function fieldProblem(name: string, value: string): string | undefined {
  if (!validName.test(name) || name.startsWith(":")) return `invalid field name ${JSON.stringify(name)}`;
  if (forbiddenInValue.test(value)) return `the value of ${name} has a forbidden character`;
  if (/^[ \t]|[ \t]$/.test(value)) return `the value of ${name} starts or ends with a space`;
  if (connectionSpecific.has(name)) return `${name} is a connection-specific field`;
  if (name === "te" && value !== "trailers") return `te: expected "trailers", got ${JSON.stringify(value)}`;
  return undefined;
}

/** The content-length of a block; undefined if there is none, NaN if it is not a whole number or two differ. */
export function contentLength(block: HeaderBlock): number | undefined {
  const { flat } = block;
  let found: string | undefined;
  for (let at = 0; at < flat.length; at += 2) {
    if (flat[at] !== "content-length") continue;
    const value = flat[at + 1] as string;
    if (found !== undefined && found !== value) return Number.NaN;
    found = value;
  }
  if (found === undefined) return undefined;
  return /^[0-9]{1,15}$/.test(found) ? Number(found) : Number.NaN;
}
