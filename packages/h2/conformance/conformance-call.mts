import type { DescService, FileRegistry, Message } from "@bufbuild/protobuf";
import { anyUnpack, type Any } from "@bufbuild/protobuf/wkt";
import { type CallOptions, ConnectError, createClient, type Transport } from "@connectrpc/connect";

interface Header {
  readonly name: string;
  readonly value: readonly string[];
}

/** The suite's message, as far as the client needs it; the descriptors are read when it runs. */
export interface ClientCompatRequest {
  readonly testName: string;
  readonly protocol: 1 | 2 | 3;
  readonly codec: number;
  readonly compression: number;
  readonly host: string;
  readonly port: number;
  readonly serverTlsCert: Uint8Array;
  readonly clientTlsCreds?: { readonly cert: Uint8Array; readonly key: Uint8Array };
  readonly messageReceiveLimit: number;
  readonly method?: string;
  readonly streamType: number;
  readonly useGetHttpMethod: boolean;
  readonly requestHeaders: readonly Header[];
  readonly requestMessages: readonly Any[];
  readonly timeoutMs?: number;
  readonly requestDelayMs: number;
  readonly cancel?: {
    readonly cancelTiming:
      | { readonly case: "beforeCloseSend" }
      | { readonly case: "afterCloseSendMs" | "afterNumResponses"; readonly value: number }
      | { readonly case: undefined };
  };
}

type Answer = Message & { readonly payload?: Message };
type Client = {
  readonly [name in "unary" | "idempotentUnary" | "unimplemented"]: (
    request: Message,
    options: CallOptions,
  ) => Promise<Answer>;
} & {
  clientStream(requests: AsyncIterable<Message>, options: CallOptions): Promise<Answer>;
  serverStream(request: Message, options: CallOptions): AsyncIterable<Answer>;
  bidiStream(requests: AsyncIterable<Message>, options: CallOptions): AsyncIterable<Answer>;
};

const FULL_DUPLEX_BIDI = 5;

/** One call that the suite wants made, and what is told of it. */
export class ConformanceCall {
  private readonly client: Client;
  private readonly call: ClientCompatRequest;
  private readonly messages: readonly Message[];
  private readonly abort = new AbortController();
  private readonly options: CallOptions;
  private responseHeaders: Headers | undefined = undefined;
  private responseTrailers: Headers | undefined = undefined;
  private readonly payloads: object[] = [];
  private sent = 0;

  constructor(registry: FileRegistry, service: DescService, transport: Transport, call: ClientCompatRequest) {
    this.call = call;
    this.client = createClient(service, transport) as unknown as Client;
    this.messages = call.requestMessages.map((each) => anyUnpack(each, registry) as Message);
    const headers = new Headers();
    for (const { name, value } of call.requestHeaders) for (const each of value) headers.append(name, each);
    this.options = {
      headers,
      signal: this.abort.signal,
      ...(call.timeoutMs === undefined ? {} : { timeoutMs: call.timeoutMs }),
      onHeader: (header) => (this.responseHeaders = header),
      onTrailer: (trailer) => (this.responseTrailers = trailer),
    };
  }

  async run(): Promise<object> {
    let error: ConnectError | undefined;
    try {
      await this.make();
    } catch (cause) {
      error = ConnectError.from(cause);
    }
    // An error's metadata are its headers and trailers together.
    return {
      responseHeaders: toHeaders(this.responseHeaders ?? error?.metadata),
      responseTrailers: toHeaders(this.responseTrailers ?? error?.metadata),
      payloads: this.payloads,
      numUnsentRequests: this.messages.length - this.sent,
      ...(error === undefined ? {} : { error: errorOf(error) }),
    };
  }

  private async make(): Promise<void> {
    const { client, options } = this;
    switch (this.call.method) {
      case "Unary":
        return this.one(async (message) => client.unary(message, options));
      case "IdempotentUnary":
        return this.one(async (message) => client.idempotentUnary(message, options));
      case "Unimplemented":
        return this.one(async (message) => client.unimplemented(message, options));
      case "ClientStream":
        return this.take(await client.clientStream(this.send(), options));
      case "ServerStream":
        await this.delay();
        this.sent = 1;
        this.afterSending();
        return this.takeAll(client.serverStream(this.messages[0] as Message, options));
      case "BidiStream":
        return this.call.streamType === FULL_DUPLEX_BIDI
          ? this.fullDuplex()
          : this.takeAll(client.bidiStream(this.send(), options));
      default:
        throw new Error(`a method that is not known: ${this.call.method}`);
    }
  }

  private async one(start: (message: Message) => Promise<Answer>): Promise<void> {
    await this.delay();
    this.sent = 1;
    const answer = start(this.messages[0] as Message);
    this.afterSending();
    this.take(await answer);
  }

  /** The requests, one after the other, and then what is to happen once they are sent. */
  private async *send(): AsyncGenerator<Message> {
    for (const message of this.messages) {
      await this.delay();
      this.sent += 1;
      yield message;
    }
    this.beforeClosing();
    this.afterSending();
  }

  /** Sends a request when the answer to the one before it has come. */
  private async fullDuplex(): Promise<void> {
    let go: () => void = () => {};
    const paced = async function* (call: ConformanceCall): AsyncGenerator<Message> {
      for await (const message of call.send()) {
        const answered = new Promise<void>((resolve) => (go = resolve));
        yield message;
        await answered;
      }
    };
    await this.takeAll(this.client.bidiStream(paced(this), this.options), () => go());
  }

  private async takeAll(answers: AsyncIterable<Answer>, onAnswer: () => void = () => {}): Promise<void> {
    const timing = this.call.cancel?.cancelTiming;
    const cancelAfter = timing?.case === "afterNumResponses" ? timing.value : -1;
    if (cancelAfter === 0) this.abort.abort();
    for await (const answer of answers) {
      this.take(answer);
      if (this.payloads.length === cancelAfter) this.abort.abort();
      onAnswer();
    }
  }

  private take(answer: Answer): void {
    // An answer of no octets is one without a payload, and counts.
    this.payloads.push(answer.payload ?? {});
  }

  private beforeClosing(): void {
    if (this.call.cancel?.cancelTiming.case === "beforeCloseSend") this.abort.abort();
  }

  private afterSending(): void {
    const timing = this.call.cancel?.cancelTiming;
    if (timing?.case === "afterCloseSendMs") setTimeout(() => this.abort.abort(), timing.value);
  }

  private async delay(): Promise<void> {
    const { requestDelayMs } = this.call;
    if (requestDelayMs > 0) await new Promise((resolve) => setTimeout(resolve, requestDelayMs));
  }
}

function toHeaders(headers: Headers | undefined): Header[] {
  return [...(headers ?? [])].map(([name, value]) => ({ name, value: [value] }));
}

function errorOf(error: ConnectError): object {
  const details = error.details.flatMap((detail) =>
    "type" in detail ? [{ typeUrl: `type.googleapis.com/${detail.type}`, value: detail.value }] : [],
  );
  return { code: error.code, message: error.rawMessage, details };
}
