import * as fc from "fast-check";
import { expect, it } from "vitest";
import { bulletList, codeBlock, left, oneLine, right, table } from "./markdown.ts";
import { markdownToHtml } from "./markdown-html.ts";

it.each([
  ["## A heading, *so labelled*", "<h2>A heading, <em>so labelled</em></h2>"],
  ["> **Noisy.** It was 2 * 3 * 4.", "<blockquote><strong>Noisy.</strong> It was 2 * 3 * 4.</blockquote>"],
  ["> It ended:\n>ERROR\nno\n> memory", "<blockquote>It ended: ERROR no memory</blockquote>"],
  ["- one\n- two", "<ul><li>one</li><li>two</li></ul>"],
  ["- one\n  goes\non\n- two", "<ul><li>one   goes on</li><li>two</li></ul>"],
  ["a\nb\n\nc", "<p>a b</p>\n<p>c</p>"],
  ["<script>", "<p>&lt;script&gt;</p>"],
])("%j", (markdown, html) => {
  expect(markdownToHtml(markdown)).toBe(html);
});

it("takes tables as they are written", () => {
  const markdown = table([left("arm"), right("examples/s")], [["a | b", "**1**"]]);
  expect(markdownToHtml(markdown)).toBe(
    '<div class="table" tabindex="0" role="group" aria-label="Table of: report"><table><thead><tr><th scope="col">arm</th><th scope="col" class="end">examples/s</th></tr></thead>' +
      '<tbody><tr><td>a | b</td><td class="end"><strong>1</strong></td></tr></tbody></table></div>',
  );
});

it("takes fenced code as it stands, whatever is in it", () => {
  expect(markdownToHtml(codeBlock("```\n\n# no heading | <b>", "text"))).toBe(
    '<pre tabindex="0" role="group" aria-label="Text of: report">```\n\n# no heading | &lt;b&gt;</pre>',
  );
});

it("names what is scrolled after the heading that it is under", () => {
  const markdown = `## First\n\n## Cost, *"so" labelled*\n\n${table([left("a")], [])}\n\n${codeBlock("x")}`;
  const labels = [...markdownToHtml(markdown).matchAll(/tabindex="0" role="group" aria-label="([^"]*)"/g)];
  expect(labels.map((match) => match[1])).toEqual([
    "Table of: Cost, &quot;so&quot; labelled",
    "Text of: Cost, &quot;so&quot; labelled",
  ]);
});

it.each([
  ["a <module> of <b>x</b>", "a \\<module> of \\<b>x\\</b>"],
  ["<!-- <?x", "\\<!-- \\<?x"],
  ["\\<b> \\\\<b> C:\\\\x", "\\\\\\<b> \\\\\\\\\\<b> C:\\\\x"],
  ["1 < 2 <3", "1 < 2 <3"],
  [" ended:\r\n  no\rroom\n", "ended: no room"],
])("%j is written as %j, and read as it was", (text, written) => {
  expect(oneLine(text)).toBe(written);
  const read = text
    .trim()
    .replaceAll(/\s*[\r\n]\s*/g, " ")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
  expect(markdownToHtml(bulletList([text]))).toBe(`<ul><li>${read}</li></ul>`);
  expect(markdownToHtml(table([left("x")], [[text]]))).toContain(`<td>${read}</td>`);
});

it("lets no markup through, and ends, whatever it is given", () => {
  const line = fc.oneof(fc.string(), fc.constantFrom("", "```", "| a | b |", "> x", "- <i>", "## y"));
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const tags = markdownToHtml(lines.join("\n")).match(/<\/?[a-z]\w*/gi) ?? [];
      for (const tag of tags) {
        expect(tag.replaceAll(/[</]/g, "")).toMatch(
          /^(h[1-6]|p|pre|ul|li|blockquote|strong|em|div|table|thead|tbody|tr|th|td)$/,
        );
      }
    }),
  );
});

it("breaks no cell within the load that a value is of", () => {
  const html = markdownToHtml("| a |\n| ---: |\n| 16,386 (14,874–16,423) at C 64 † |");
  expect(html).toContain('>16,386 (14,874–16,423) <span class="whole">at C 64 †</span></td>');
});
