type Align = "left" | "right";

export interface Column {
  readonly title: string;
  readonly align: Align;
}

export const right = (title: string): Column => ({ title, align: "right" });
export const left = (title: string): Column => ({ title, align: "left" });

/** A GitHub table; cells may hold Markdown, but neither line breaks nor HTML, and `|` is escaped. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(escapeCell).join(" | ")} |`;
  return [
    line(columns.map((column) => column.title)),
    `| ${columns.map((column) => (column.align === "right" ? "---:" : "---")).join(" | ")} |`,
    ...rows.map(line),
  ].join("\n");
}

/** An item a line, whatever breaks an item has. */
export function bulletList(items: readonly string[]): string {
  return items.map((item) => `- ${oneLine(item)}`).join("\n");
}

/** Text that others wrote, as part of a line: without breaks, and what looks like HTML, which GitHub drops, as it stands. */
export function oneLine(text: string): string {
  return text
    .trim()
    .replaceAll(/\s*[\n\r]\s*/g, " ")
    .replaceAll(/(\\*)<(?=[a-z/!?])/gi, (_, backslashes: string) => `${backslashes.repeat(2)}\\<`);
}

export function hasLineBreaks(text: string): boolean {
  return /[\n\r]/.test(text.trim());
}

/** A fenced block whose fence is longer than any in `text`. */
export function codeBlock(text: string, language = ""): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

function escapeCell(text: string): string {
  return oneLine(text).replaceAll("|", "\\|");
}
