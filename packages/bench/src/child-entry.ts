import { fileURLToPath } from "node:url";

/** Path of an entry file beside this one, with the extension that this one runs with (`.ts` from source, else `.js`). */
export function childEntry(name: string): string {
  const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
  return fileURLToPath(new URL(`./${name}${extension}`, import.meta.url));
}
