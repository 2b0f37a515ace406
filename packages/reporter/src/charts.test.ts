import { describe, expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { renderCharts } from "./charts.ts";
import { shortNumber, ticks } from "./svg.ts";

describe("renderCharts", () => {
  it("draws throughput and scaling, light and dark, with the data beside", () => {
    const charts = renderCharts(fixedSummary());
    expect(charts.map((chart) => chart.name)).toEqual(["throughput", "scaling"]);
    for (const { svg, title } of charts) {
      expect(title).toContain("simulated accelerator");
      expect(svg.light).not.toBe(svg.dark);
      for (const text of [svg.light, svg.dark]) {
        expect(text).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" width="880"/);
        expect(text).not.toMatch(/NaN|Infinity|undefined/);
      }
    }
    expect(charts[0]?.csv).toBe(
      [
        "b_req,arm,concurrency,examples_per_s,p99_ms",
        "1,engine,16,15000,4.2",
        "1,engine-batch,16,9050,4.4",
        "1,py,16,1050,19.9",
        "16,engine,16,40000,18",
        "16,engine-batch,,,",
        "16,py,,,",
        "",
      ].join("\n"),
    );
    expect(charts[1]?.csv.split("\n")).toHaveLength(11);
  });

  it("draws the longest bar of a panel over the whole width and the others in proportion", () => {
    const points = [closedPoint("engine", 1, 1, [1000]), closedPoint("py", 1, 1, [250])];
    const [chart] = renderCharts({ ...fixedSummary(), arms: [], points });
    const widths = [...(chart?.svg.light.matchAll(/<rect x="150" y="[\d.]+" width="([\d.]+)"/g) ?? [])];
    expect(widths.map((match) => Number(match[1]))).toEqual([520, 130]);
  });

  it("draws a hollow bar where all points are left out of comparisons", () => {
    const points = [closedPoint("engine", 1, 1, [1000], { clientBound: true }), closedPoint("py", 1, 1, [500])];
    const [chart] = renderCharts({ ...fixedSummary(), arms: [], points });
    expect(chart?.svg.light).toContain('width="520" height="22" rx="3" fill="none" stroke=');
    expect(chart?.svg.light).toContain("1,000 /s, client-bound");
    expect(chart?.csv).toContain("1,engine,,,\n");
  });

  it("escapes names and draws nothing without points", () => {
    const [chart] = renderCharts({ ...fixedSummary(), arms: [], points: [closedPoint("<&>", 1, 1, [1])] });
    expect(chart?.svg.light).toContain("&lt;&amp;&gt;");
    expect(renderCharts({ ...fixedSummary(), points: [] })).toEqual([]);
  });
});

it.each([
  [0, [0, 1]],
  [1, [0, 0.2, 0.4, 0.6, 0.8, 1]],
  [22_000, [0, 5000, 10_000, 15_000, 20_000, 25_000]],
  [0.3, [0, 0.1, 0.2, 0.3]],
])("ticks up to %d are %j", (max, expected) => {
  expect(ticks(max, 5)).toEqual(expected);
});

it("shortens numbers", () => {
  expect([0, 0.2, 950, 1500, 20_000, 3e6].map(shortNumber)).toEqual(["0", "0.2", "950", "1.5k", "20k", "3M"]);
});
