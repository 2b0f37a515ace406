import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { DataType, PredictionService } from "@dlrm/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunningServer } from "@dlrm/server";
import { bytesOf, exampleRequest, inputsOf, scoresOf, type TensorInit } from "./example-requests.ts";
import { grpcClient, startTestServer, type TemporaryBundle, temporaryBundle, TRANSPORTS } from "./serving-fixture.ts";

let bundle: TemporaryBundle;
let server: RunningServer & AsyncDisposable;
beforeAll(async () => {
  bundle = await temporaryBundle();
  server = await startTestServer(bundle, { maxExamplesPerRequest: 100, maxBatchSize: 16 });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await bundle[Symbol.asyncDispose]();
});

type Inputs = Record<string, TensorInit>;

interface BadRequest {
  readonly title: string;
  readonly change: (inputs: Inputs) => void;
  readonly code: Code;
  readonly message: string;
}

const invalid = Code.InvalidArgument;
const tensor = (inputs: Inputs, name: string): TensorInit => inputs[name] as TensorInit;

/** All on a valid request of 2 examples; sparse_1 and sparse_3 are int64. */
const BAD_INPUTS: readonly BadRequest[] = [
  {
    title: "no inputs",
    change: (inputs) => {
      for (const name of Object.keys(inputs)) delete inputs[name];
    },
    code: invalid,
    message: '5 inputs are missing ("dense", "sparse_0", "sparse_1", "sparse_2", "sparse_3"): expected 5, got 0',
  },
  {
    title: "a missing feature",
    change: (inputs) => delete inputs["sparse_2"],
    code: invalid,
    message: 'input "sparse_2" is missing: expected 5 inputs, got 4',
  },
  {
    title: "missing dense features",
    change: (inputs) => delete inputs["dense"],
    code: invalid,
    message: 'input "dense" is missing: expected 5 inputs, got 4',
  },
  {
    title: "an unknown input",
    change: (inputs) => (inputs["sparse_99"] = tensor(inputs, "sparse_1")),
    code: invalid,
    message: 'unknown input "sparse_99": the model\'s inputs are "dense", "sparse_0" … "sparse_3"',
  },
  {
    title: "an unknown input with a long and strange name",
    change: (inputs) => (inputs[`"\n✓${"x".repeat(10_000)}`] = tensor(inputs, "sparse_1")),
    code: invalid,
    message: `unknown input "\\"\\n✓${"x".repeat(61)}…": the model's inputs are "dense", "sparse_0" … "sparse_3"`,
  },
  {
    title: "dense features of another data type",
    change: (inputs) => (tensor(inputs, "dense").dataType = DataType.FLOAT64),
    code: invalid,
    message: 'input "dense": expected data type FLOAT32, got FLOAT64',
  },
  {
    title: "ids of another data type",
    change: (inputs) => (tensor(inputs, "sparse_0").dataType = DataType.FLOAT32),
    code: invalid,
    message: 'input "sparse_0": expected data type INT32 or INT64, got FLOAT32',
  },
  {
    title: "no data type",
    change: (inputs) => (tensor(inputs, "sparse_0").dataType = DataType.UNSPECIFIED),
    code: invalid,
    message: 'input "sparse_0": expected data type INT32 or INT64, got UNSPECIFIED',
  },
  {
    title: "a data type that does not exist",
    change: (inputs) => (tensor(inputs, "sparse_0").dataType = 77 as DataType),
    code: invalid,
    message: 'input "sparse_0": expected data type INT32 or INT64, got 77 (unknown)',
  },
  {
    title: "no shape",
    change: (inputs) => (tensor(inputs, "sparse_0").shape = []),
    code: invalid,
    message: 'input "sparse_0": expected shape [examples, 3], got []',
  },
  {
    title: "one dimension",
    change: (inputs) => (tensor(inputs, "sparse_1").shape = [2n]),
    code: invalid,
    message: 'input "sparse_1": expected shape [examples, 1], got [2]',
  },
  {
    title: "many dimensions",
    change: (inputs) => (tensor(inputs, "sparse_1").shape = Array.from({ length: 1000 }, () => 2n)),
    code: invalid,
    message: 'input "sparse_1": expected shape [examples, 1], got [2, 2, 2, 2, 2, 2, 2, 2, … 64 dimensions or more]',
  },
  {
    title: "another hot size",
    change: (inputs) => (tensor(inputs, "sparse_0").shape = [2n, 4n]),
    code: invalid,
    message: 'input "sparse_0": expected shape [examples, 3], got [2, 4]',
  },
  {
    title: "another number of dense features",
    change: (inputs) => (tensor(inputs, "dense").shape = [3n, 2n]),
    code: invalid,
    message: 'input "dense": expected shape [examples, 3], got [3, 2]',
  },
  {
    title: "another number of examples than other inputs have",
    change: (inputs) => {
      tensor(inputs, "sparse_2").shape = [3n, 5n];
      tensor(inputs, "sparse_2").data = new Uint8Array(60);
    },
    code: invalid,
    message: 'input "sparse_2": expected shape [2, 5] as input "dense" has 2 examples, got [3, 5]',
  },
  {
    title: "no examples",
    change: (inputs) => {
      for (const input of Object.values(inputs)) {
        input.shape = [0n, input.shape[1] as bigint];
        input.data = new Uint8Array();
      }
    },
    code: invalid,
    message: 'input "dense": expected 1 to 100 examples (--max-examples-per-request), got shape [0, 3]',
  },
  {
    title: "a negative number of examples",
    change: (inputs) => (tensor(inputs, "dense").shape = [-1n, 3n]),
    code: invalid,
    message: 'input "dense": expected 1 to 100 examples (--max-examples-per-request), got shape [-1, 3]',
  },
  {
    title: "a negative number beyond 2^53",
    change: (inputs) => (tensor(inputs, "dense").shape = [-(2n ** 63n), 3n]),
    code: invalid,
    message:
      'input "dense": expected 1 to 100 examples (--max-examples-per-request), got shape [-9223372036854775808, 3]',
  },
  {
    title: "more examples than a request may have",
    change: (inputs) => {
      for (const [name, input] of Object.entries(inputsOf(exampleRequest(1, 101)))) inputs[name] = input;
    },
    code: Code.ResourceExhausted,
    message:
      'the request has 101 examples (input "dense"), over the limit of 100 a request (--max-examples-per-request)',
  },
  {
    title: "a number of examples beyond 2^53",
    change: (inputs) => (tensor(inputs, "dense").shape = [2n ** 62n, 3n]),
    code: Code.ResourceExhausted,
    message:
      'the request has 4611686018427387904 examples (input "dense"), over the limit of 100 a request (--max-examples-per-request)',
  },
  {
    title: "too few bytes",
    change: (inputs) => (tensor(inputs, "sparse_0").data = new Uint8Array(23)),
    code: invalid,
    message: 'input "sparse_0": expected 24 bytes of data for shape [2, 3] of 4-byte elements, got 23',
  },
  {
    title: "too many bytes",
    change: (inputs) => (tensor(inputs, "dense").data = new Uint8Array(28)),
    code: invalid,
    message: 'input "dense": expected 24 bytes of data for shape [2, 3] of 4-byte elements, got 28',
  },
  {
    title: "bytes of int64 under the type int32",
    change: (inputs) => (tensor(inputs, "sparse_1").dataType = DataType.INT32),
    code: invalid,
    message: 'input "sparse_1": expected 8 bytes of data for shape [2, 1] of 4-byte elements, got 16',
  },
  {
    title: "no bytes",
    change: (inputs) => (tensor(inputs, "sparse_3").data = new Uint8Array()),
    code: invalid,
    message: 'input "sparse_3": expected 32 bytes of data for shape [2, 2] of 8-byte elements, got 0',
  },
  ...(
    [
      ["one over the table's last row", 50],
      ["negative", -1],
      ["the least int32", -(2 ** 31)],
      ["the greatest int32", 2 ** 31 - 1],
    ] as const
  ).map(([title, id]) => ({
    title: `an int32 id: ${title}`,
    change: (inputs: Inputs) => (tensor(inputs, "sparse_0").data = bytesOf(Int32Array.of(1, 2, 3, 4, id, 5))),
    code: invalid,
    message: `input "sparse_0": expected ids from 0 to 49, got ${id} at example 1, bag position 1`,
  })),
  ...(
    [
      ["one over the table's last row", 7n],
      ["negative", -1n],
      ["the first beyond int32", 2n ** 31n],
      ["a valid id in its lower half", 2n ** 32n + 1n],
      ["beyond 2^53", 2n ** 53n + 1n],
      ["the greatest int64", 2n ** 63n - 1n],
      ["the least int64", -(2n ** 63n)],
      ["the first below int32", -(2n ** 31n) - 1n],
    ] as const
  ).map(([title, id]) => ({
    title: `an int64 id: ${title}`,
    change: (inputs: Inputs) => (tensor(inputs, "sparse_1").data = bytesOf(BigInt64Array.of(6n, id))),
    code: invalid,
    message: `input "sparse_1": expected ids from 0 to 6, got ${id} at example 1, bag position 0`,
  })),
  ...[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map((value) => ({
    title: `a dense feature that is ${value}`,
    change: (inputs: Inputs) => (tensor(inputs, "dense").data = bytesOf(Float32Array.of(0, 1, 2, 3, value, 5))),
    code: invalid,
    message: `input "dense": expected finite values, got ${value} at example 1, feature 1`,
  })),
];

async function failure(promise: Promise<unknown>): Promise<ConnectError> {
  try {
    await promise;
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new Error("expected an error, got an answer");
}

/** Good requests, each with the scores of the reference. */
const good = new Map<number, { inputs: Inputs; expected: Float64Array }>();
beforeAll(async () => {
  for (const seed of [1, 2, 19, 3, 4, 5]) {
    const request = exampleRequest(seed, 1 + (seed % 20));
    good.set(seed, { inputs: inputsOf(request), expected: await bundle.reference.forward(request, "simulated") });
  }
});

/** Runs `bad` among good requests and expects each of these to get its scores. */
async function amongGoodRequests<Result>(
  client: Client<typeof PredictionService>,
  bad: () => Promise<Result>,
): Promise<Result> {
  const askGood = async (seed: number): Promise<void> => {
    const { inputs, expected } = good.get(seed) as { inputs: Inputs; expected: Float64Array };
    const scores = scoresOf((await client.predict({ inputs })).outputs);
    expect(scores).toHaveLength(expected.length);
    expect(scores.every((score, example) => Math.abs(score - (expected[example] as number)) <= 1e-4)).toBe(true);
  };
  const before = [1, 2, 19].map(askGood);
  const result = bad();
  await Promise.all([...before, askGood(3), askGood(4)]);
  await askGood(5);
  return await result;
}

describe.each(["gRPC over HTTP/2", "Connect JSON over HTTP/1.1"])("over %s", (protocol) => {
  let client: Client<typeof PredictionService>;
  beforeAll(() => {
    client = createClient(PredictionService, (TRANSPORTS[protocol] as (typeof TRANSPORTS)[string])(server.port));
  });

  test.each(BAD_INPUTS)("$title is refused by name, and others are unharmed", async ({ change, code, message }) => {
    const inputs = inputsOf(exampleRequest(99, 2));
    change(inputs);
    const error = await amongGoodRequests(client, () => failure(client.predict({ inputs })));
    expect(error.rawMessage).toBe(message);
    expect(Code[error.code]).toBe(Code[code]);
  });

  test.each([
    ["a model", { model: "other" }, 'unknown model "other": the server has "tiny"'],
    ["a version", { model: "tiny", version: "9" }, 'unknown version "9" of model "tiny": the server has "3"'],
    ["a version of the only model", { version: "1" }, 'unknown version "1" of model "tiny": the server has "3"'],
  ])("%s that is not there is NOT_FOUND, with those that are", async (_title, names, message) => {
    const inputs = inputsOf(exampleRequest(99, 2));
    const error = await amongGoodRequests(client, () => failure(client.predict({ ...names, inputs })));
    expect(error.rawMessage).toBe(message);
    expect(Code[error.code]).toBe("NotFound");
    const metadataError = await failure(client.getModelMetadata(names));
    expect(metadataError.rawMessage).toBe(message);
    expect(Code[metadataError.code]).toBe("NotFound");
  });
});

test("errors are counted by code, and answers too", async () => {
  await using other = await startTestServer(bundle);
  const client = grpcClient(other.port);
  await failure(client.predict({ model: "other" }));
  await failure(client.predict({}));
  await failure(client.predict({}));
  await client.predict({ inputs: inputsOf(exampleRequest(1, 3)) });
  expect(other.stats).toEqual({
    answeredRequests: 1,
    answeredExamples: 3,
    refusedRequests: { NOT_FOUND: 1, INVALID_ARGUMENT: 2 },
  });
});
