/**
 * The Markdown that `renderReport` writes, as HTML: headings, tables, quotes, fenced code, lists, paragraphs, bold and
 * emphasis. Everything else is text, and no HTML comes through.
 */
export function markdownToHtml(markdown: string): string {
  const lines = markdown.split("\n");
  const html: string[] = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? "";
    const fence = /^(`{3,})/.exec(line)?.[1];
    if (fence !== undefined) {
      const found = lines.indexOf(fence, at + 1);
      const end = found < 0 ? lines.length : found;
      html.push(`<pre>${escapeHtml(lines.slice(at + 1, end).join("\n"))}</pre>`);
      at = end + 1;
      continue;
    }
    const blank = lines.indexOf("", at);
    const end = blank < 0 ? lines.length : blank;
    if (line !== "") html.push(blockToHtml(lines.slice(at, end)));
    at = end + 1;
  }
  return html.join("\n");
}

function blockToHtml(block: readonly string[]): string {
  const first = block[0] ?? "";
  const heading = /^(#{1,6}) (.*)$/.exec(first);
  if (heading !== null) return `<h${heading[1]?.length}>${inline(heading[2] ?? "")}</h${heading[1]?.length}>`;
  if (first.startsWith("| ")) return tableToHtml(block);
  if (first.startsWith("> ")) return `<blockquote>${block.map((line) => inline(line.slice(2))).join(" ")}</blockquote>`;
  if (first.startsWith("- ")) return `<ul>${block.map((line) => `<li>${inline(line.slice(2))}</li>`).join("")}</ul>`;
  return `<p>${block.map(inline).join(" ")}</p>`;
}

function tableToHtml([head = "", rule = "", ...rows]: readonly string[]): string {
  const ends = cells(rule).map((cell) => cell.endsWith(":"));
  const row = (line: string, tag: "th" | "td"): string =>
    `<tr>${cells(line)
      .map(
        (cell, column) =>
          `<${tag}${tag === "th" ? ' scope="col"' : ""}${ends[column] === true ? ' class="end"' : ""}>${inline(cell)}</${tag}>`,
      )
      .join("")}</tr>`;
  return `<div class="table"><table><thead>${row(head, "th")}</thead><tbody>${rows.map((line) => row(line, "td")).join("")}</tbody></table></div>`;
}

function cells(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function inline(text: string): string {
  return escapeHtml(text)
    .replaceAll(/\*\*(.+?)\*\*/g, "<strong>$1</strong>")
    .replaceAll(/(?<![\w*])\*(?! )([^*]+)(?<! )\*(?![\w*])/g, "<em>$1</em>");
}

export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
