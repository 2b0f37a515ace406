/** URL of the module `name` beside the one at `url`, with its extension: `.ts` from source, `.js` once built. */
export function besideThis(url: string, name: string): URL {
  return new URL(`./${name}${url.endsWith(".ts") ? ".ts" : ".js"}`, url);
}
