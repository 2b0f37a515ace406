import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { CHROMIUM } from "../test/chromium.ts";
import { realisticSummary } from "../test/realistic-summary.ts";
import { pageData } from "./page-data.ts";
import { renderPage } from "./render-page.ts";

describe("renderPage", () => {
  it("loads nothing: no address but that of the SVG namespace, and a policy that forbids it", () => {
    const html = renderPage(realisticSummary());
    expect([...new Set(html.match(/https?:\/\/[^"'\s]*/g))]).toEqual(["http://www.w3.org/2000/svg"]);
    expect(html).not.toMatch(/<(?:link|img|iframe|script src)/);
    expect(html).toContain("default-src 'none'");
  });

  it("is the same every time", () => {
    expect(renderPage(realisticSummary())).toBe(renderPage(realisticSummary()));
  });

  it("leaves points with errors, bound by the client or with dropped sends out of comparisons", () => {
    const left = pageData(fixedSummary()).points.map(({ arm, bReq, concurrency, leftOut }) => [
      `${arm} ${bReq} ${concurrency}`,
      leftOut,
    ]);
    expect(left.filter(([, why]) => why !== "")).toEqual([
      ["engine 1 64", "client-bound"],
      ["py 16 16", "with errors"],
      ["engine 1 null", "sends dropped"],
    ]);
  });

  it("lets no name of an arm out of its place", () => {
    const name = `</script><script>alert("1")</script>`;
    const html = renderPage({ ...fixedSummary(), arms: [], points: [closedPoint(name, 1, 1, [1])] });
    expect(html).not.toContain("<script>alert");
    expect(html.match(/<script/g)).toHaveLength(2);
  });
});

const missing =
  CHROMIUM === undefined ? " (skipped: no Chromium on the PATH, and none packaged for this platform)" : "";

describe.skipIf(CHROMIUM === undefined)(`the page in Chromium${missing}`, { timeout: 120_000 }, () => {
  let folder: string;
  let browser: Browser;
  const problems: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "report-page-"));
    writeFileSync(path.join(folder, "report.html"), renderPage(realisticSummary()));
    browser = await chromium.launch({
      ...CHROMIUM,
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    });
  }, 120_000);

  afterAll(async () => {
    await browser.close();
    rmSync(folder, { recursive: true });
  });

  async function open(colorScheme: "light" | "dark" = "light"): Promise<Page> {
    const page = await browser.newPage({ colorScheme, viewport: { width: 1100, height: 900 } });
    page.on("console", (message) => problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("request", (request) => {
      if (!request.url().startsWith("file:")) problems.push(request.url());
    });
    await page.goto(pathToFileURL(path.join(folder, "report.html")).href);
    return page;
  }

  it("draws every chart, says nothing on the console and asks for nothing", async () => {
    const page = await open();
    const ids = await page.locator("#charts svg").evaluateAll((found) => found.map((svg) => svg.id));
    expect(ids).toEqual(["throughput", "scaling", "cpu-scaling", "latency", "cost", "open-loop"]);
    // 8 arms at 3 request sizes and 4 concurrencies.
    expect(await page.locator("#scaling .mark").count()).toBe(96);
    expect(await page.locator("#throughput .bar").count()).toBe(24);
    expect(await page.locator("#charts").innerHTML()).not.toMatch(/NaN|Infinity|undefined/);
    expect(problems).toEqual([]);
    await page.close();
  });

  it("leaves out arms that are toggled off, and scales to the others", async () => {
    const page = await open();
    const widthOf = async (place: number): Promise<number> =>
      Number(await page.locator("#throughput .bar").nth(place).getAttribute("width"));
    expect(await widthOf(0)).toBe(500);
    expect(await widthOf(3)).toBeLessThan(100);
    await page.getByRole("button", { name: "none", exact: true }).click();
    expect(await page.locator("#charts .bar, #charts .mark").count()).toBe(0);
    await page.getByRole("checkbox", { name: "py", exact: true }).check();
    expect(await page.locator("#throughput .bar").count()).toBe(3);
    expect(await widthOf(0)).toBe(500);
    await page.close();
  });

  it("draws within the bound that is chosen", async () => {
    const page = await open();
    const text = async (): Promise<string> => (await page.locator("#throughput").textContent()) ?? "";
    expect(await text()).toContain("none within the bound");
    await page.getByLabel("Bound").selectOption({ label: "any p99" });
    expect(await text()).not.toContain("none within the bound");
    await page.close();
  });

  it("is used with the keyboard alone", async () => {
    const page = await open();
    await page.locator("#throughput").focus();
    const detail = page.locator("figure:has(#throughput) .detail");
    await page.keyboard.press("ArrowRight");
    expect(await detail.textContent()).toMatch(/^engine, B_req 1, C \d+ · [\d,]+ examples\/s/);
    await page.keyboard.press("ArrowRight");
    expect(await detail.textContent()).toMatch(/^engine-batch, B_req 1, /);
    await page.keyboard.press("ArrowDown");
    expect(await detail.textContent()).toMatch(/^engine, B_req 16, /);
    await page.keyboard.press("ArrowUp");
    expect(await detail.textContent()).toMatch(/^engine, B_req 1, /);
    await page.keyboard.press("Escape");
    expect(await detail.textContent()).toMatch(/^Point at a value/);
    // From the first checkbox: off by space, and back to the tables by the radio buttons.
    await page.getByRole("checkbox", { name: "engine", exact: true }).focus();
    await page.keyboard.press("Space");
    expect(await page.locator("#throughput .bar").count()).toBe(21);
    await page.getByRole("radio", { name: "charts" }).focus();
    await page.keyboard.press("ArrowRight");
    expect(await page.locator("#tables").isVisible()).toBe(true);
    expect(await page.locator("#charts").isVisible()).toBe(false);
    await page.close();
  });

  it("says on each chart that the accelerator was simulated", async () => {
    const page = await open();
    const titles = await page.locator("#charts figcaption").allTextContents();
    expect(titles).toHaveLength(6);
    expect(titles.filter((title) => !title.endsWith(", simulated accelerator"))).toEqual([]);
    expect(await page.locator("#cost").getAttribute("aria-label")).toContain(", simulated accelerator. Arrow keys");
    await page.close();
  });

  it("writes memory as the report's tables do", async () => {
    const page = await open();
    const text = await page.locator("#cost").textContent();
    expect(text).toMatch(/\d\.\d\d GiB PSS/);
    expect(text).not.toMatch(/\d,\d\d\d MiB/);
    await page.close();
  });

  it("has the report's tables, which neither the arms nor the bound change", async () => {
    const page = await open();
    const ofCharts = page.locator("#controls :is(input[name=arm], select, button)");
    expect(await ofCharts.count()).toBe(11);
    expect(await page.locator("#controls :disabled").count()).toBe(0);
    await page.getByRole("radio", { name: "tables" }).check();
    const rows = page.locator("h2:has-text('Closed loop, every point') + div tbody tr");
    expect(await rows.count()).toBe(96);
    expect(await ofCharts.and(page.locator(":disabled")).count()).toBe(11);
    await page.getByRole("radio", { name: "charts" }).check();
    expect(await page.locator("#controls :disabled").count()).toBe(0);
    await page.close();
  });

  it.each([
    ["light", "rgb(255, 255, 255)"],
    ["dark", "rgb(13, 17, 23)"],
  ] as const)("is %s where the system is", async (colorScheme, background) => {
    const page = await open(colorScheme);
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe(background);
    await page.close();
  });
});
