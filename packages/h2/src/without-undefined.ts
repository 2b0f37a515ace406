/** The options that are given: spread over defaults, one that is undefined would take the place of its default. */
export function withoutUndefined<Options extends object>(options: Options): Options {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Options;
}
