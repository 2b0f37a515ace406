/** Node's own flags that decide how modules are found and read; each may carry its value after `=`, or as the next argument. */
const WITH_VALUE: ReadonlySet<string> = new Set(["--conditions", "-C"]);
const WITHOUT_VALUE: ReadonlySet<string> = new Set([
  "--experimental-strip-types",
  "--enable-source-maps",
  "--preserve-symlinks",
]);

/**
 * Those flags of a Node process that its child processes need to read the same sources. All others are left behind: `-e`
 * would make a child run the parent's program again, and `--inspect` or `--cpu-prof` would measure on top of the measurement.
 */
export function inheritedNodeFlags(execArgv: readonly string[]): string[] {
  const inherited: string[] = [];
  for (let i = 0; i < execArgv.length; i++) {
    const arg = execArgv[i] as string;
    const [name = ""] = arg.split("=", 1);
    if (WITHOUT_VALUE.has(arg) || (WITH_VALUE.has(name) && arg.includes("="))) {
      inherited.push(arg);
    } else if (WITH_VALUE.has(arg)) {
      inherited.push(arg, execArgv[i + 1] ?? "");
      i++;
    }
  }
  return inherited;
}
