import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

/** A process that prints a JSON line when it is ready and answers JSON lines by JSON lines. */
export class Child {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #name: string;

  private constructor(name: string, child: ChildProcess, lines: AsyncIterator<string>) {
    this.#name = name;
    this.#process = child;
    this.#lines = lines;
  }

  /** Starts it and waits until it is ready. */
  static async start(
    name: string,
    command: string,
    args: readonly string[],
  ): Promise<{ child: Child; ready: unknown }> {
    const started = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    const failed = new Promise<never>((_, reject) => {
      started.once("error", reject);
    });
    const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]();
    const child = new Child(name, started, lines);
    return { child, ready: await Promise.race([child.#next(), failed]) };
  }

  /** The number it answers. */
  async ask(question: unknown): Promise<number> {
    this.#process.stdin?.write(`${JSON.stringify(question)}\n`);
    const answer = await this.#next();
    if (typeof answer !== "number" || !Number.isFinite(answer)) {
      throw new Error(`${this.#name} answered ${JSON.stringify(answer)}, expected a number`);
    }
    return answer;
  }

  /** Ends it, by the end of its input. */
  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.stdin?.end();
    await ended;
  }

  async #next(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error(`${this.#name} ended early, exit code ${this.#process.exitCode}`);
    return JSON.parse(value) as unknown;
  }
}
