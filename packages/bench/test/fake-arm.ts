import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { fileURLToPath } from "node:url";
import type { Arm, ArmCommand } from "@dlrm/arm-contract";

export type FakeMode =
  | "ok"
  | "early-exit"
  | "stubborn"
  | "wrong"
  | "not-serving"
  | "child"
  | "crash"
  | "killed"
  | "hang-up"
  | "error";

const script = fileURLToPath(new URL("./fake-server.ts", import.meta.url));

export function fakeServerCommand(port: number, mode: FakeMode, notifyPort?: number): ArmCommand {
  const notify = notifyPort === undefined ? [] : ["--notify-port", String(notifyPort)];
  return {
    file: process.execPath,
    args: ["--conditions=@dlrm/source", script, "--port", String(port), "--mode", mode, ...notify],
    env: {},
  };
}

export interface FakeArmOptions {
  readonly family?: Arm["family"];
  readonly mode?: FakeMode;
  readonly notifyPort?: number;
  /** What is missing; default nothing. */
  readonly missing?: string;
}

export function fakeArm(name: string, options: FakeArmOptions = {}): Arm {
  const { family = "engine", mode = "ok", notifyPort, missing } = options;
  return {
    name,
    title: `fake ${name}`,
    family,
    platforms: ["cpu", "sim"],
    availability: async () => (missing === undefined ? { available: true } : { available: false, missing }),
    prepare: async ({ report }) => report(`${name} has what it needs`),
    command: ({ port }) => fakeServerCommand(port, mode, notifyPort),
  };
}

/** Learns of the life of other processes by the connections that they hold. */
export class LifeLine {
  readonly port: number;
  readonly #server: Server;
  readonly #connected: Promise<{ ended: Promise<void> }>;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
    this.#connected = new Promise((resolve) => {
      server.once("connection", (socket) => {
        // A process that is killed may reset its connection.
        socket.on("error", () => undefined).resume();
        resolve({ ended: new Promise((end) => socket.once("close", () => end())) });
      });
    });
  }

  static async open(): Promise<LifeLine> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    return new LifeLine(server, typeof address === "object" && address !== null ? address.port : 0);
  }

  /** Settles once a process has connected; `ended` settles when it has ended, however that was. */
  connected(): Promise<{ ended: Promise<void> }> {
    return this.#connected;
  }

  close(): void {
    this.#server.close();
  }
}
