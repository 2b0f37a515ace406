import { expect, test } from "vitest";
import { receivedTimeoutMs, timeoutMsOf } from "./call-deadline.ts";

test.each<[string, string, number]>([
  ["grpc-timeout", "2H", 7_200_000],
  ["grpc-timeout", "3M", 180_000],
  ["grpc-timeout", "1S", 1000],
  ["grpc-timeout", "99999999m", 99_999_999],
  ["grpc-timeout", "1500u", 1.5],
  ["grpc-timeout", "0n", 0],
  ["connect-timeout-ms", "250", 250],
  ["grpc-timeout", "123456789m", Infinity],
  ["grpc-timeout", "5", Infinity],
  ["connect-timeout-ms", "-1", Infinity],
  ["te", "trailers", Infinity],
])("%s: %s is %d ms", (name, value, expected) => {
  expect(timeoutMsOf(new Headers([[name, value]]))).toBeCloseTo(expected, 9);
});

test.each<[string, number]>([
  ["application/grpc+proto", 1000],
  ["application/grpc-web", 1000],
  ["application/json", 250],
  ["application/connect+proto", 250],
])("of a call of %s, the header of its protocol counts", (type, expected) => {
  const header = new Headers({ "content-type": type, "grpc-timeout": "1S", "connect-timeout-ms": "250" });
  expect(receivedTimeoutMs(header)).toBe(expected);
});
