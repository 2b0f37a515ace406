import type { ArmCommand } from "@dlrm/arm-contract";

/** A command as one would type it into a POSIX shell. */
export function shellText(command: Pick<ArmCommand, "file" | "args" | "env">): string {
  const variables = Object.entries(command.env).map(([name, value]) => `${name}=${quote(value)}`);
  return [...variables, quote(command.file), ...command.args.map(quote)].join(" ");
}

function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
