/// <reference lib="dom" />
import type { PageData, PagePoint } from "./page-data.ts";

/** Functions that the script shares with the charts in files. They, too, go into the page as text. */
export interface PageTools {
  readonly formatNumber: (value: number) => string;
  readonly shortNumber: (value: number) => string;
  readonly ticks: (max: number, count: number) => number[];
}

interface Item {
  readonly element: Element;
  readonly text: string;
  /** Arm or panel: what the up and down keys go between. */
  readonly group: string;
}

interface Scale {
  readonly ticks: readonly number[];
  readonly at: (value: number) => number;
}

/**
 * Draws the page's charts, and draws them anew when an arm or the bound is chosen. It runs in the browser: its text goes
 * into the page, so it must use nothing of this module but its parameters.
 */
export function pageScript(page: Document, data: PageData, tools: PageTools): void {
  const { formatNumber, shortNumber, ticks } = tools;
  const charts = page.getElementById("charts") as HTMLElement;
  const tables = page.getElementById("tables") as HTMLElement;
  const controls = page.getElementById("controls") as HTMLFormElement;
  const bound = page.getElementById("bound") as HTMLSelectElement;
  const boxes = [...controls.querySelectorAll<HTMLInputElement>("input[name=arm]")];

  const shape = (
    name: string,
    attributes: Readonly<Record<string, string | number>>,
    parent?: Element,
    content?: string,
  ): SVGElement => {
    const element = page.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    if (content !== undefined) element.textContent = content;
    parent?.append(element);
    return element;
  };

  const mark = (series: number, x: number, y: number, hollow: boolean, parent: Element): SVGElement => {
    const r = 5;
    const look = { class: `mark s${series % 8}${hollow ? " hollow" : ""}` };
    if (series % 4 === 0) return shape("circle", { cx: x, cy: y, r, ...look }, parent);
    const corners = ["-4.5,-4.5 4.5,-4.5 4.5,4.5 -4.5,4.5", "0,-6 6,0 0,6 -6,0", "0,-5.7 5.7,4.5 -5.7,4.5"];
    const points = corners[(series % 4) - 1] ?? "";
    return shape("polygon", { points, transform: `translate(${x} ${y})`, ...look }, parent);
  };

  const describe = (point: PagePoint): string =>
    [
      `${point.arm}, B_req ${point.bReq}, ` +
        (point.concurrency === null
          ? `open loop at ${point.peakPercent ?? "?"} % of its peak`
          : `C ${point.concurrency}`),
      `${formatNumber(point.examplesPerS)} examples/s (${formatNumber(point.lowest)}–${formatNumber(point.highest)})`,
      `p50 ${point.p50Ms === null ? "–" : formatNumber(point.p50Ms)} ms`,
      `p99 ${point.p99Ms === null ? "–" : formatNumber(point.p99Ms)} ms`,
      `CPU ${point.cpuMicros === null ? "–" : formatNumber(point.cpuMicros)} µs an example`,
      ...(point.leftOut === "" ? [] : [`${point.leftOut}: wins no comparison`]),
    ].join(" · ");

  /** A figure whose items can be gone through with the arrow keys; what an item says is shown under it. */
  const figure = (
    id: string,
    title: string,
    width: number,
    height: number,
  ): { svg: SVGElement; done: (items: Item[]) => void } => {
    const box = page.createElement("figure");
    const caption = page.createElement("figcaption");
    const labelled = `${title}${data.label}`;
    caption.textContent = labelled;
    const svg = shape("svg", {
      id,
      viewBox: `0 0 ${width} ${height}`,
      tabindex: 0,
      role: "group",
      "aria-label": `${labelled}. Arrow keys go through its values.`,
    });
    const detail = page.createElement("p");
    detail.className = "detail";
    detail.setAttribute("role", "status");
    const hint = "Point at a value, or focus the chart and use the arrow keys.";
    detail.textContent = hint;
    box.append(caption, svg, detail);
    charts.append(box);
    return {
      svg,
      done: (items) => {
        let current = -1;
        const show = (index: number): void => {
          items[current]?.element.classList.remove("current");
          current = index;
          items[current]?.element.classList.add("current");
          detail.textContent = items[current]?.text ?? hint;
        };
        for (const [index, item] of items.entries()) item.element.addEventListener("pointerenter", () => show(index));
        svg.addEventListener("keydown", (event) => {
          const { key } = event;
          const last = items.length - 1;
          const group = items[current]?.group;
          const next = ((): number | undefined => {
            if (key === "ArrowRight") return Math.min(last, current + 1);
            if (key === "ArrowLeft") return Math.max(0, current - 1);
            if (key === "Home") return 0;
            if (key === "End") return last;
            if (key === "Escape") return -1;
            if (key === "ArrowDown") {
              const found = items.findIndex((item, index) => index > current && item.group !== group);
              return found < 0 ? current : found;
            }
            if (key === "ArrowUp") {
              const before = items.slice(0, Math.max(0, current)).findLast((item) => item.group !== group)?.group;
              return before === undefined ? current : items.findIndex((item) => item.group === before);
            }
            return undefined;
          })();
          if (next === undefined) return;
          event.preventDefault();
          show(next);
        });
      },
    };
  };

  const linear = (values: readonly number[], count: number): Scale => {
    const steps = ticks(Math.max(0, ...values), count);
    const top = steps.at(-1) ?? 1;
    return { ticks: steps, at: (value) => value / top };
  };

  const logarithmic = (values: readonly number[]): Scale => {
    if (values.length === 0) return linear([], 4);
    const low = 10 ** Math.floor(Math.log10(Math.min(...values)));
    const high = Math.max(low * 10, 10 ** Math.ceil(Math.log10(Math.max(...values)) - 1e-9));
    const powers = Array.from({ length: Math.round(Math.log10(high / low)) + 1 }, (_, power) => low * 10 ** power);
    return { ticks: powers, at: (value) => Math.log(value / low) / Math.log(high / low) };
  };

  const lines = (
    id: string,
    title: string,
    points: readonly PagePoint[],
    xOf: (point: PagePoint) => number | null,
    yOf: (point: PagePoint) => number | null,
    log: boolean,
  ): void => {
    const columns = data.sizes.length;
    const width = Math.max(460, columns * 330);
    const { svg, done } = figure(id, title, width, 330);
    const items: Item[] = [];
    for (const [column, bReq] of data.sizes.entries()) {
      const left = (column * width) / columns + 52;
      const plot = width / columns - 76;
      const inPanel = points.filter((point) => {
        const y = yOf(point);
        return point.bReq === bReq && y !== null && (!log || y > 0);
      });
      const values = inPanel.map((point) => yOf(point) ?? 0);
      const y = log ? logarithmic(values) : linear(values, 5);
      const callers = [...new Set(inPanel.map((point) => point.concurrency ?? 0))].sort((a, b) => a - b);
      const overThroughput = id === "latency";
      const x: Scale = overThroughput
        ? linear(
            inPanel.map((point) => point.examplesPerS),
            4,
          )
        : {
            ticks: callers,
            at: (value) => (callers.length < 2 ? 0.5 : callers.indexOf(value) / (callers.length - 1)),
          };
      const px = (value: number): number => left + x.at(value) * plot;
      const py = (value: number): number => 270 - y.at(value) * 230;
      shape("text", { x: left, y: 22, class: "strong" }, svg, `B_req ${bReq}`);
      for (const tick of y.ticks) {
        shape("line", { x1: left, x2: left + plot, y1: py(tick), y2: py(tick), class: "grid" }, svg);
        shape("text", { x: left - 6, y: py(tick) + 4, class: "small end" }, svg, shortNumber(tick));
      }
      for (const tick of x.ticks) {
        shape("text", { x: px(tick), y: 290, class: "small middle" }, svg, shortNumber(tick));
      }
      const axis = overThroughput ? "examples/s" : "callers (C)";
      shape("text", { x: left + plot / 2, y: 312, class: "small middle" }, svg, axis);
      for (const arm of data.arms) {
        const line = inPanel
          .filter((point) => point.arm === arm.name)
          .sort((a, b) => (a.concurrency ?? 0) - (b.concurrency ?? 0))
          .map((point) => ({ point, x: px(xOf(point) ?? 0), y: py(yOf(point) ?? 0) }));
        const path = line.map((at) => `${at.x},${at.y}`).join(" ");
        shape("polyline", { points: path, class: `line s${arm.series % 8}` }, svg);
        for (const at of line) {
          const element = mark(arm.series, at.x, at.y, at.point.leftOut !== "", svg);
          items.push({ element, text: describe(at.point), group: `${bReq} ${arm.name}` });
        }
      }
    }
    done(items);
  };

  interface Bar {
    readonly name: string;
    readonly series: number;
    readonly value: number | null;
    readonly label: string;
    readonly text: string;
    readonly hollow: boolean;
  }

  const bars = (id: string, title: string, panels: readonly { title: string; bars: readonly Bar[] }[]): void => {
    const row = 26;
    const height = panels.reduce((sum, panel) => sum + panel.bars.length * row + 44, 0);
    const { svg, done } = figure(id, title, 900, height);
    const items: Item[] = [];
    let top = 0;
    for (const panel of panels) {
      shape("text", { x: 10, y: top + 18, class: "strong" }, svg, panel.title);
      const max = Math.max(1e-9, ...panel.bars.map((bar) => bar.value ?? 0));
      for (const [index, bar] of panel.bars.entries()) {
        const y = top + 30 + index * row;
        const width = ((bar.value ?? 0) / max) * 500;
        shape("text", { x: 150, y: y + 15, class: "end" }, svg, bar.name);
        const look = `bar s${bar.series % 8}${bar.hollow ? " hollow" : ""}`;
        const element = shape("rect", { x: 160, y, width, height: row - 6, rx: 3, class: look }, svg);
        shape("text", { x: 168 + width, y: y + 15, class: bar.value === null ? "small" : "" }, svg, bar.label);
        items.push({ element, text: bar.text, group: panel.title });
      }
      top += panel.bars.length * row + 44;
    }
    done(items);
  };

  const best = (points: readonly PagePoint[], budgetMs: number | null): PagePoint | undefined => {
    const within = points.filter((point) => point.p99Ms !== null && (budgetMs === null || point.p99Ms <= budgetMs));
    const fair = within.filter((point) => point.leftOut === "");
    return [...(fair.length > 0 ? fair : within)].sort((a, b) => b.examplesPerS - a.examplesPerS)[0];
  };

  const draw = (): void => {
    const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const arms = data.arms.filter((arm) => chosen.has(arm.name));
    const closed = data.points.filter((point) => chosen.has(point.arm) && point.concurrency !== null);
    const open = data.points.filter((point) => chosen.has(point.arm) && point.concurrency === null);
    const budgetMs = bound.value === "" ? null : Number(bound.value);
    const boundText = budgetMs === null ? "any p99" : `p99 ≤ ${budgetMs} ms`;
    const barsOf = (
      points: readonly PagePoint[],
      pick: (points: readonly PagePoint[]) => PagePoint | undefined,
      value: (point: PagePoint) => number | null,
      unit: string,
      none: string,
    ): Bar[] =>
      arms.map(({ name, series }) => {
        const point = pick(points.filter((candidate) => candidate.arm === name));
        const amount = point === undefined ? null : value(point);
        if (point === undefined || amount === null) {
          return { name, series, value: null, label: none, text: `${name}: ${none}`, hollow: false };
        }
        const label = `${formatNumber(amount)} ${unit}${point.leftOut === "" ? "" : `, ${point.leftOut}`}`;
        return { name, series, value: amount, label, text: describe(point), hollow: point.leftOut !== "" };
      });
    charts.replaceChildren();
    const panels = (
      title: (bReq: number) => string,
      of: (points: readonly PagePoint[]) => Bar[],
      points: readonly PagePoint[],
    ): { title: string; bars: Bar[] }[] =>
      data.sizes.map((bReq) => ({ title: title(bReq), bars: of(points.filter((point) => point.bReq === bReq)) }));
    bars(
      "throughput",
      `Throughput at ${boundText}, examples/s`,
      panels(
        (bReq) => `B_req ${bReq}`,
        (points) =>
          barsOf(
            points,
            (own) => best(own, budgetMs),
            (point) => point.examplesPerS,
            "/s",
            "none within the bound",
          ),
        closed,
      ),
    );
    lines(
      "scaling",
      "Throughput against callers (C), examples/s",
      closed,
      (point) => point.concurrency,
      (point) => point.examplesPerS,
      false,
    );
    lines(
      "cpu-scaling",
      "CPU against callers (C), µs an example",
      closed,
      (point) => point.concurrency,
      (point) => point.cpuMicros,
      true,
    );
    lines(
      "latency",
      "p99 against throughput, ms",
      closed,
      (point) => point.examplesPerS,
      (point) => point.p99Ms,
      true,
    );
    const memory = arms.map(({ name, series, memoryBytes, memoryText }) => {
      const label = memoryBytes === null ? "not measured" : memoryText;
      return {
        name,
        series,
        value: memoryBytes,
        label,
        text: `${name}: ${label}, all processes, all points`,
        hollow: false,
      };
    });
    bars("cost", "CPU and memory of the server", [
      ...panels(
        (bReq) => `B_req ${bReq}: CPU µs an example at the peak`,
        (points) =>
          barsOf(
            points,
            (own) => best(own, null),
            (point) => point.cpuMicros,
            "µs",
            "not measured",
          ),
        closed,
      ),
      { title: "Peak memory", bars: memory },
    ]);
    const percents = [...new Set(open.map((point) => point.peakPercent))].sort((a, b) => (a ?? 0) - (b ?? 0));
    if (percents.length === 0) return;
    bars(
      "open-loop",
      "Open loop: p99 from the intended send time, ms",
      percents.flatMap((percent) =>
        panels(
          (bReq) => `B_req ${bReq}, Poisson at ${percent ?? "?"} % of each arm's own peak`,
          (points) =>
            barsOf(
              points,
              (own) => own[0],
              (point) => point.p99Ms,
              "ms",
              "not measured",
            ),
          open.filter((point) => point.peakPercent === percent),
        ),
      ),
    );
  };

  const view = (): void => {
    const asTables = controls.querySelector<HTMLInputElement>("input[name=view]:checked")?.value === "tables";
    charts.hidden = asTables;
    tables.hidden = !asTables;
    // The tables have all arms and bounds, whatever is chosen.
    for (const control of [...boxes, bound, ...controls.querySelectorAll("button")]) control.disabled = asTables;
  };

  controls.addEventListener("change", (event) => {
    if ((event.target as HTMLInputElement).name === "view") view();
    else draw();
  });
  controls.addEventListener("submit", (event) => event.preventDefault());
  for (const [id, checked] of [
    ["all", true],
    ["none", false],
  ] as const) {
    page.getElementById(id)?.addEventListener("click", () => {
      for (const box of boxes) box.checked = checked;
      draw();
    });
  }
  controls.hidden = false;
  draw();
  view();
}
