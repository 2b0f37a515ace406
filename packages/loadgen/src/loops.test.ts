import { describe, expect, test } from "vitest";
import { ClosedLoop } from "./closed-loop.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import { OpenLoop } from "./open-loop.ts";
import { Recorder } from "./recorder.ts";

/** A server, network and clock in the test's hands: time stands still unless the test moves it. */
class Bench {
  nowMicros = 0;
  readonly now = (): number => this.nowMicros;
  readonly calls: { channel: number; token: number; atMicros: number }[] = [];
  finished = 0;

  parts(recorder: Recorder, channels: number = 1) {
    return {
      channels: Array.from({ length: channels }, (_, channel) => ({
        call: (token: number) => void this.calls.push({ channel, token, atMicros: this.nowMicros }),
      })),
      pool: { next: () => new Uint8Array(5), examples: 3 },
      recorder,
      now: this.now,
      onFinished: () => void this.finished++,
    };
  }
}

const window = { fromMicros: 1000, toMicros: 2000 };
const closedRecorder = (): Recorder => new Recorder(window, { open: false, lateAfterMicros: 1000 });
const read = (text: string): LatencyHistogram => LatencyHistogram.decode(text);

describe("ClosedLoop", () => {
  test("keeps one request outstanding for each caller, over the channels in turn", () => {
    const bench = new Bench();
    const loop = new ClosedLoop(5, bench.parts(closedRecorder(), 2));
    loop.start();
    expect(bench.calls.map(({ channel, token }) => [channel, token])).toEqual([
      [0, 0],
      [1, 1],
      [0, 2],
      [1, 3],
      [0, 4],
    ]);
    loop.onAnswer(3, 0, "", 9);
    loop.onAnswer(0, 0, "", 9);
    expect(bench.calls.slice(5).map(({ channel, token }) => [channel, token])).toEqual([
      [1, 3],
      [0, 0],
    ]);
  });

  test("counts throughput by the answer's time, latency by the send's time", () => {
    const bench = new Bench();
    const recorder = closedRecorder();
    const loop = new ClosedLoop(1, bench.parts(recorder));
    const answerAt = (micros: number): void => {
      bench.nowMicros = micros;
      loop.onAnswer(0, 0, "", 9);
    };
    loop.start();
    answerAt(400); // before the window
    answerAt(1100); // sent at 400, answered in the window: throughput only
    answerAt(1400); // sent at 1100: both, 300 µs
    answerAt(1900); // sent at 1400: both, 500 µs
    expect(bench.finished).toBe(0);
    answerAt(2700); // sent at 1900, answered after: latency only, 800 µs
    expect(bench.finished).toBe(1);
    expect(bench.calls).toHaveLength(5);
    const result = recorder.result();
    expect(result).toMatchObject({
      completed: 3,
      completedExamples: 9,
      intended: 3,
      errors: {},
      dropped: 0,
      late: 0,
      unanswered: 0,
    });
    const latency = read(result.latency);
    expect([latency.count, latency.percentileMicros(1), latency.percentileMicros(50), latency.maxMicros]).toEqual([
      3, 300, 500, 800,
    ]);
    expect(result.latencyFromSend).toBe(result.latency);
  });

  test("the ends of the window: its first microsecond is inside, its last is not", () => {
    const bench = new Bench();
    const recorder = closedRecorder();
    const loop = new ClosedLoop(1, bench.parts(recorder));
    bench.nowMicros = 1000;
    loop.start();
    bench.nowMicros = 2000;
    loop.onAnswer(0, 0, "", 9);
    expect(recorder.result()).toMatchObject({ completed: 0, intended: 1 });
    expect(read(recorder.result().latency).count).toBe(1);
  });

  test("other callers go on until the window's last request is answered", () => {
    const bench = new Bench();
    const loop = new ClosedLoop(2, bench.parts(closedRecorder()));
    bench.nowMicros = 1500;
    loop.start();
    bench.nowMicros = 2100;
    loop.onAnswer(0, 0, "", 9);
    expect(bench.calls.at(-1)).toMatchObject({ token: 0, atMicros: 2100 });
    loop.windowOver();
    expect(bench.finished).toBe(0);
    bench.nowMicros = 2200;
    loop.onAnswer(0, 0, "", 9);
    bench.nowMicros = 2300;
    loop.onAnswer(1, 0, "", 9);
    expect(bench.finished).toBe(1);
    loop.onAnswer(0, 0, "", 9);
    expect(bench.calls).toHaveLength(4);
  });

  test("a loop in which nothing is outstanding ends with the window", () => {
    const bench = new Bench();
    const loop = new ClosedLoop(1, bench.parts(closedRecorder()));
    loop.start();
    bench.nowMicros = 2000;
    loop.windowOver();
    expect(bench.finished).toBe(1);
  });

  test("errors are counted by name, never as latencies; the first is kept; the caller goes on", () => {
    const bench = new Bench();
    const recorder = closedRecorder();
    const loop = new ClosedLoop(1, bench.parts(recorder));
    loop.start();
    bench.nowMicros = 1000;
    loop.onAnswer(0, 8, "warm-up is not counted", 0);
    for (const [status, detail] of [
      [8, "queue is full"],
      [8, "queue is full"],
      [14, "gone"],
      [0, ""],
      [77, ""],
    ] as const) {
      bench.nowMicros += 10;
      loop.onAnswer(0, status, detail, status === 0 ? 9 : 0);
    }
    const result = recorder.result();
    expect(result.errors).toEqual({ RESOURCE_EXHAUSTED: 2, UNAVAILABLE: 1, CODE_77: 1 });
    expect(result.errorSample).toBe("RESOURCE_EXHAUSTED: queue is full");
    expect([result.completed, read(result.latency).count, result.intended]).toEqual([1, 1, 6]);
  });

  test("an OK of another length than the first to as many examples is an error of its own, and no throughput", () => {
    const bench = new Bench();
    const recorder = closedRecorder();
    const parts = bench.parts(recorder);
    const loop = new ClosedLoop(1, parts);
    const answer = (examples: number, bodyBytes: number): void => {
      parts.pool.examples = examples;
      loop.onAnswer(0, 0, "", bodyBytes);
    };
    bench.nowMicros = 1000;
    // Sizes are those of the request before: the answers are to 3, 3, 65,536, 65,536 and 3 examples.
    loop.start();
    answer(3, 17);
    answer(65_536, 16);
    answer(65_536, 262_149);
    answer(3, 262_148);
    answer(3, 17);
    const result = recorder.result();
    expect(result.errors).toEqual({ WRONG_LENGTH: 2 });
    expect(result.errorSample).toBe("WRONG_LENGTH: an answer of 16 bytes to 3 examples, the first had 17");
    expect([result.completed, result.completedExamples, read(result.latency).count]).toEqual([3, 3 + 65_536 + 3, 3]);
    expect([recorder.answersOk, recorder.answersFailed]).toEqual([3, 2]);
  });

  test("requests that are never answered become errors when the wait is over", () => {
    const bench = new Bench();
    const recorder = closedRecorder();
    bench.nowMicros = 1500;
    new ClosedLoop(3, bench.parts(recorder)).start();
    recorder.giveUp();
    expect(recorder.result()).toMatchObject({ unanswered: 3, intended: 3, errors: { DEADLINE_EXCEEDED: 3 } });
  });
});

describe("OpenLoop", () => {
  class ManualPacer {
    wake: () => void = () => {};
    stopped = false;
    start(onDue: () => void): void {
      this.wake = onDue;
    }
    stop(): void {
      this.stopped = true;
    }
  }

  function setUp(times: readonly number[], maxInFlight: number = 100, channels: number = 1) {
    const bench = new Bench();
    const pacer = new ManualPacer();
    const recorder = new Recorder(window, { open: true, lateAfterMicros: 100 });
    const loop = new OpenLoop(
      { schedule: Float64Array.from(times), maxInFlight, pacer },
      bench.parts(recorder, channels),
    );
    loop.start();
    const wakeAt = (micros: number): void => {
      bench.nowMicros = micros;
      pacer.wake();
    };
    return { bench, pacer, recorder, loop, wakeAt };
  }

  test("sends what is due, no more and no less, over the channels in turn", () => {
    const { bench, wakeAt } = setUp([10, 20, 30, 40], 100, 3);
    wakeAt(5);
    expect(bench.calls).toEqual([]);
    wakeAt(30);
    expect(bench.calls.map((call) => call.channel)).toEqual([0, 1, 2]);
    wakeAt(39.9);
    expect(bench.calls).toHaveLength(3);
    wakeAt(40);
    expect(bench.calls.map((call) => call.channel)).toEqual([0, 1, 2, 0]);
  });

  test("a server that stalls is charged for every request that was due in the stall, not for one", () => {
    // One request each 10 µs; the server answers each at once, but stalls from 1200 to 1700.
    const times = Array.from({ length: 100 }, (_, i) => 1000 + i * 10);
    const { bench, recorder, loop, wakeAt } = setUp(times);
    const answerAll = (): void => {
      for (const { token } of bench.calls.splice(0)) loop.onAnswer(token, 0, "", 9);
    };
    for (const time of times) {
      wakeAt(time);
      if (time < 1200 || time >= 1700) answerAll();
    }
    bench.nowMicros = 2000;
    loop.windowOver();
    expect(bench.finished).toBe(1);
    const result = recorder.result();
    const latency = read(result.latency);
    expect([latency.count, result.completed, result.intended]).toEqual([100, 100, 100]);
    // Those due at 1200, 1210, … 1690 waited 500, 490, … 10 µs: half of all requests, in even steps.
    expect(latency.maxMicros).toBe(500);
    expect(latency.percentileMicros(50)).toBe(0);
    expect(latency.percentileMicros(75)).toBe(250);
    expect(latency.percentileMicros(99)).toBe(490);
    expect(read(result.sendLag).maxMicros).toBe(0);
  });

  test("a generator that stalls says so: latency counts from the intended time, the actual one beside it", () => {
    const { bench, recorder, loop, wakeAt } = setUp([1100, 1200, 1300]);
    wakeAt(1100);
    // Nothing could run until 1350: the sends at 1200 and 1300 are 150 and 50 µs late.
    wakeAt(1350);
    bench.nowMicros = 1400;
    for (const { token } of bench.calls) loop.onAnswer(token, 0, "", 9);
    const result = recorder.result();
    expect(result.late).toBe(1);
    const [latency, fromSend, lag] = [result.latency, result.latencyFromSend, result.sendLag].map(read);
    expect([latency?.percentileMicros(1), latency?.percentileMicros(50), latency?.maxMicros]).toEqual([100, 200, 300]);
    expect([fromSend?.percentileMicros(1), fromSend?.percentileMicros(50), fromSend?.maxMicros]).toEqual([50, 50, 300]);
    expect([lag?.percentileMicros(1), lag?.percentileMicros(50), lag?.maxMicros]).toEqual([0, 50, 150]);
  });

  test("sends above the cap are dropped and counted, never put off", () => {
    const { bench, recorder, loop, wakeAt } = setUp([900, 1100, 1200, 1300, 1400], 2);
    for (const time of [900, 1100, 1200, 1300]) wakeAt(time);
    expect(bench.calls.map((call) => call.atMicros)).toEqual([900, 1100]);
    bench.nowMicros = 1350;
    loop.onAnswer(bench.calls[0]?.token ?? -1, 0, "", 9);
    wakeAt(1400);
    expect(bench.calls.map((call) => call.atMicros)).toEqual([900, 1100, 1400]);
    expect(recorder.result()).toMatchObject({ dropped: 2, intended: 4, completed: 1 });
  });

  test("ends once the window is over and its last request is answered; later answers change nothing", () => {
    const { bench, pacer, recorder, loop, wakeAt } = setUp([500, 1500]);
    wakeAt(500);
    wakeAt(1500);
    bench.nowMicros = 2000;
    loop.windowOver();
    expect(bench.finished).toBe(0);
    bench.nowMicros = 2500;
    loop.onAnswer(bench.calls[1]?.token ?? -1, 0, "", 9);
    expect([bench.finished, pacer.stopped]).toEqual([1, true]);
    loop.onAnswer(bench.calls[0]?.token ?? -1, 0, "", 9);
    expect([bench.finished, recorder.answersOk]).toEqual([1, 1]);
  });
});
