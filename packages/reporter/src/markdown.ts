type Align = "left" | "right";

export interface Column {
  readonly title: string;
  readonly align: Align;
}

export const right = (title: string): Column => ({ title, align: "right" });
export const left = (title: string): Column => ({ title, align: "left" });

/** A GitHub table; cells may hold Markdown, but no line breaks, and `|` is escaped. */
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
  return items.map((item) => `- ${item.replaceAll(/\s*\n\s*/g, " ")}`).join("\n");
}

/** A fenced block whose fence is longer than any in `text`. */
export function codeBlock(text: string, language = ""): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll(/\s*\n\s*/g, " ");
}
