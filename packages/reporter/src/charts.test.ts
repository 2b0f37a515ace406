import { describe, expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { renderCharts } from "./charts.ts";
import { shortNumber, ticks } from "./svg.ts";

describe("renderCharts", () => {
  it("draws throughput, scaling, latency and cost, light and dark, with the data beside", () => {
    const charts = renderCharts(fixedSummary());
    expect(charts.map((chart) => chart.name)).toEqual(["throughput", "scaling", "latency", "cost"]);
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

  it("draws at most three sizes, a row for throughput and one for CPU, with hollow marks explained", () => {
    const sizes = [1, 4, 16, 64, 128].map((bReq) =>
      closedPoint("engine", bReq, 1, [1000], { clientBound: bReq === 128 }),
    );
    const scaling = renderCharts({ ...fixedSummary(), arms: [], points: sizes })[1];
    const titles = [...(scaling?.svg.light.matchAll(/>(B_req [^<]*)</g) ?? [])].map((match) => match[1]);
    expect(titles).toEqual(
      ["examples/s", "CPU µs an example"].flatMap((of) => [1, 16, 128].map((bReq) => `B_req ${bReq}: ${of}`)),
    );
    expect(scaling?.svg.light).toContain("Hollow marks: the load generator was the limit");
  });

  it("puts a mark where its point is", () => {
    const points = [
      closedPoint("engine", 1, 1, [500], { p99Ms: 1 }),
      closedPoint("engine", 1, 4, [1000], { p99Ms: 10 }),
    ];
    const latency = renderCharts({ ...fixedSummary(), arms: [], points })[2];
    const marks = [...(latency?.svg.light.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)" r="4.5"/g) ?? [])];
    // The plot is 790 wide from 64, of 0 to 1,000 examples/s, and 220 high from 110, of 1 to 10 ms.
    expect(marks.map((mark) => [Number(mark[1]), Number(mark[2])])).toEqual([
      [64 + 395, 110 + 220],
      [64 + 790, 110],
    ]);
  });

  it("has CPU at the peak and the largest memory as CSV", () => {
    const cost = renderCharts(fixedSummary())[3];
    expect(cost?.csv.split("\n").slice(0, 4)).toEqual([
      "b_req,arm,concurrency,server_cpu_micros_per_example,peak_memory_bytes,memory_measure",
      "1,engine,16,50,94371840,PSS",
      "1,engine-batch,16,50,94371840,PSS",
      "1,py,64,815,94371840,PSS",
    ]);
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
