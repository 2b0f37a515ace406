import { expect, test } from "vitest";
import { RequestActivity } from "./request-activity.ts";

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
