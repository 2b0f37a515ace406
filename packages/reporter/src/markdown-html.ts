/**
 * The Markdown that `renderReport` writes, as HTML: headings, tables, quotes, fenced code, lists, paragraphs, bold and
 * emphasis. Everything else is text, and no HTML comes through.
 */
export function markdownToHtml(markdown: string): string {
  const lines = markdown.split("\n");
  const html: string[] = [];
  let under = "report";
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? "";
    const fence = /^(`{3,})/.exec(line)?.[1];
    if (fence !== undefined) {
      const found = lines.indexOf(fence, at + 1);
      const end = found < 0 ? lines.length : found;
      html.push(`<pre${scroller(`Text of: ${under}`)}>${escapeHtml(lines.slice(at + 1, end).join("\n"))}</pre>`);
      at = end + 1;
      continue;
    }
    const blank = lines.indexOf("", at);
    const end = blank < 0 ? lines.length : blank;
    under = headingOf(line)?.text ?? under;
    if (line !== "") html.push(blockToHtml(lines.slice(at, end), under));
    at = end + 1;
  }
  return html.join("\n");
}

/** @param under the heading that the block is under: names what takes the focus. */
function blockToHtml(block: readonly string[], under: string): string {
  const first = block[0] ?? "";
  const heading = headingOf(first);
  if (heading !== undefined) return `<h${heading.level}>${inline(heading.text)}</h${heading.level}>`;
  if (first.startsWith("| ")) return tableToHtml(block, under);
  // Lines without the mark of the first go on with what is before them.
  if (first.startsWith("> ")) {
    return `<blockquote>${block.map((line) => inline(line.replace(/^> ?/, ""))).join(" ")}</blockquote>`;
  }
  if (first.startsWith("- ")) {
    const items = block.join("\n").slice(2).split("\n- ");
    return `<ul>${items.map((item) => `<li>${inline(item.replaceAll("\n", " "))}</li>`).join("")}</ul>`;
  }
  return `<p>${block.map(inline).join(" ")}</p>`;
}

function headingOf(line: string): { readonly level: number; readonly text: string } | undefined {
  const [, marks, text] = /^(#{1,6}) (.*)$/.exec(line) ?? [];
  return marks === undefined || text === undefined ? undefined : { level: marks.length, text };
}

/** What may be wider than the page: without a mouse it is scrolled once it has the focus. */
function scroller(label: string): string {
  return ` tabindex="0" role="group" aria-label="${escapeHtml(label.replaceAll("*", ""))}"`;
}

function tableToHtml([head = "", rule = "", ...rows]: readonly string[], under: string): string {
  const ends = cells(rule).map((cell) => cell.endsWith(":"));
  const row = (line: string, tag: "th" | "td"): string =>
    `<tr>${cells(line)
      .map(
        (cell, column) =>
          `<${tag}${tag === "th" ? ' scope="col"' : ""}${ends[column] === true ? ' class="end"' : ""}>${withWholeLoad(inline(cell))}</${tag}>`,
      )
      .join("")}</tr>`;
  return `<div class="table"${scroller(`Table of: ${under}`)}><table><thead>${row(head, "th")}</thead><tbody>${rows.map((line) => row(line, "td")).join("")}</tbody></table></div>`;
}

/** A narrow column breaks before the load that a value is of, not within it. */
function withWholeLoad(html: string): string {
  return html.replaceAll(/\bat C \d+(?: [†‡§])?/g, '<span class="whole">$&</span>');
}

function cells(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function inline(text: string): string {
  return escapeHtml(withoutEscapes(text))
    .replaceAll(/\*\*(.+?)\*\*/g, "<strong>$1</strong>")
    .replaceAll(/(?<![\w*])\*(?! )([^*]+)(?<! )\*(?![\w*])/g, "<em>$1</em>");
}

/** Undoes what `oneLine` does to `<`. */
function withoutEscapes(text: string): string {
  return text.replaceAll(/(?:\\\\)*\\</g, (escaped) => escaped.slice(escaped.length / 2));
}

export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
