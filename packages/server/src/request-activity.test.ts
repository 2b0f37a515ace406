import { expect, test } from "vitest";
import { ActiveRequest, RequestActivity } from "./request-activity.ts";

test("waits until every request is in the batcher, and until none is left", async () => {
  const activity = new RequestActivity();
  const events: string[] = [];
  await activity.until(() => activity.inFlight === 0);
  activity.enter();
  activity.enter();
  const scoring = activity.until(() => activity.allScoring).then(() => events.push("all scoring"));
  const idle = activity.until(() => activity.inFlight === 0).then(() => events.push("idle"));
  activity.scoringStarted();
  await Promise.resolve();
  expect(events).toEqual([]);
  activity.scoringStarted();
  await scoring;
  expect(events).toEqual(["all scoring"]);
  activity.scoringEnded();
  activity.leave();
  expect(activity.inFlight).toBe(1);
  activity.scoringEnded();
  activity.leave();
  await idle;
  expect(events).toEqual(["all scoring", "idle"]);
});

test("a request that is read is not taken for one that scores while others leave", async () => {
  const activity = new RequestActivity();
  const [first, second, read] = [1, 2, 3].map(() => new ActiveRequest(activity)) as [
    ActiveRequest,
    ActiveRequest,
    ActiveRequest,
  ];
  first.scoringStarted();
  second.scoringStarted();
  let allScoring = false;
  const done = activity.until(() => activity.allScoring).then(() => (allScoring = true));
  // As when their connection breaks: what becomes of their scoring is told later.
  first.leave();
  second.leave();
  first.scoringEnded();
  second.scoringEnded();
  second.leave();
  // Too late to score.
  second.scoringStarted();
  await Promise.resolve();
  expect([allScoring, activity.inFlight]).toEqual([false, 1]);
  read.scoringStarted();
  await done;
  read.scoringEnded();
  read.leave();
  expect([activity.inFlight, activity.allScoring]).toEqual([0, true]);
});
