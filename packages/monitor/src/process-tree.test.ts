import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeProc, type FakeProcess } from "../test/fake-proc.ts";
import { Proc } from "./proc.ts";
import { ProcessTree } from "./process-tree.ts";

let fake: FakeProc;
beforeEach(() => {
  fake = new FakeProc();
});
afterEach(() => fake.remove());

/** Shows the processes to the tree, one step after another; returns pids and CPU ticks of each step. */
function watch(...steps: (readonly FakeProcess[])[]): { pids: number[]; ticks: number }[] {
  const tree = new ProcessTree(new Proc(fake.root), [10]);
  return steps.map((processes) => {
    fake.set(processes);
    return { pids: tree.refresh().map((stat) => stat.pid), ticks: tree.cpuTicks };
  });
}

const root = (more: Partial<FakeProcess> = {}): FakeProcess => ({ pid: 10, parentPid: 1, user: 5, system: 5, ...more });
const child = (more: Partial<FakeProcess> = {}): FakeProcess => ({ pid: 20, parentPid: 10, user: 7, ...more });
const grandchild = (more: Partial<FakeProcess> = {}): FakeProcess => ({ pid: 30, parentPid: 20, user: 100, ...more });
const stranger: FakeProcess = { pid: 99, parentPid: 1, user: 5000 };

describe("ProcessTree", () => {
  test("has the process and all its descendants, parents first, and no one else", () => {
    expect(watch([stranger, grandchild(), child(), root()])).toEqual([{ pids: [10, 20, 30], ticks: 117 }]);
  });

  test("finds the same without the kernel's lists of children", () => {
    const tree = new ProcessTree(new Proc(fake.root), [10]);
    fake.set([stranger, grandchild(), child(), root()], { childrenFiles: false });
    expect(tree.refresh().map((stat) => stat.pid)).toEqual([10, 20, 30]);
  });

  test("finds children that any thread has made, and those that start meanwhile", () => {
    const threads = [
      { tid: 10, name: "main", switches: 0, ns: 0 },
      { tid: 11, name: "worker", switches: 0, ns: 0 },
    ];
    expect(watch([root({ threads })], [root({ threads }), child()]).map((step) => step.pids)).toEqual([[10], [10, 20]]);
  });

  test("a child that ended and was waited for counts once: by what the kernel added to its parent", () => {
    expect(
      watch(
        [root(), child()],
        [root(), child({ user: 50 })],
        [root({ reapedUser: 55 })],
        [root({ reapedUser: 55 })],
      ).map((step) => step.ticks),
    ).toEqual([17, 60, 65, 65]);
  });

  test("a zombie counts by its own time until it is waited for", () => {
    expect(
      watch([root(), child()], [root(), child({ state: "Z", user: 9 })], [root({ reapedUser: 9 })]).map(
        (step) => step.ticks,
      ),
    ).toEqual([17, 19, 19]);
  });

  test("a child that no one waits for counts by what was last seen", () => {
    expect(watch([root(), child()], [root()], [root({ user: 6 })]).map((step) => step.ticks)).toEqual([17, 17, 18]);
  });

  test("a child that is gone before the kernel's count shows it is not counted twice after that", () => {
    expect(watch([root(), child()], [root()], [root({ reapedUser: 8 })]).map((step) => step.ticks)).toEqual([
      17, 17, 18,
    ]);
  });

  test("children that come and go between two looks count through their parent", () => {
    expect(watch([root()], [root({ reapedUser: 30, reapedSystem: 3 })]).map((step) => step.ticks)).toEqual([10, 43]);
  });

  test("children waited for before the watch began count as before it", () => {
    expect(watch([root({ reapedUser: 1000 })], [root({ reapedUser: 1001 })]).map((step) => step.ticks)).toEqual([
      1010, 1011,
    ]);
  });

  test("a whole branch that ends at once counts once", () => {
    expect(watch([root(), child(), grandchild()], [root({ reapedUser: 120 })]).map((step) => step.ticks)).toEqual([
      117, 130,
    ]);
    expect(watch([root(), child(), grandchild()], [root()]).map((step) => step.ticks)).toEqual([117, 117]);
  });

  test("a grandchild waited for by its parent, which then ends and is waited for, counts once", () => {
    expect(
      watch([root(), child(), grandchild()], [root(), child({ reapedUser: 101 })], [root({ reapedUser: 109 })]).map(
        (step) => step.ticks,
      ),
    ).toEqual([117, 118, 119]);
  });

  test("a grandchild stays when its parent ends, and keeps its time when it ends without anyone of the tree", () => {
    const adopted = grandchild({ parentPid: 1 });
    expect(
      watch(
        [root(), child(), grandchild()],
        [root({ reapedUser: 7 }), adopted],
        [root({ reapedUser: 7 }), { ...adopted, user: 140 }],
        [root({ reapedUser: 7 })],
      ),
    ).toEqual([
      { pids: [10, 20, 30], ticks: 117 },
      { pids: [10, 30], ticks: 117 },
      { pids: [10, 30], ticks: 157 },
      { pids: [10], ticks: 157 },
    ]);
  });

  test("when the whole tree has ended its time stands", () => {
    expect(watch([root({ reapedUser: 3 }), child()], [], [])).toEqual([
      { pids: [10, 20], ticks: 20 },
      { pids: [], ticks: 20 },
      { pids: [], ticks: 20 },
    ]);
  });

  test("a pid that another program got is not ours, unless one of ours started it", () => {
    expect(
      watch([root(), child()], [root(), { pid: 20, parentPid: 1, user: 900, startTicks: 500 }]).map(
        (step) => step.pids,
      ),
    ).toEqual([[10, 20], [10]]);
    expect(watch([root(), child()], [root({ reapedUser: 7 }), child({ user: 1, startTicks: 500 })])).toEqual([
      { pids: [10, 20], ticks: 17 },
      { pids: [10, 20], ticks: 18 },
    ]);
  });

  test("several roots, one of them the child of another, count once each", () => {
    const tree = new ProcessTree(new Proc(fake.root), [20, 10, 99]);
    fake.set([stranger, child(), root()]);
    expect(tree.refresh()).toHaveLength(3);
    expect(tree.cpuTicks).toBe(5017);
  });
});
