import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("jax_network.py", import.meta.url));

/** `jax.jit` of the dense network in a Python of its own: measures when it is told to, so that others can go in between. */
export class JaxNetwork {
  /** The platform it runs on, and the version of JAX. */
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  /**
   * On the plugin at `pluginPath`, or, without one, on JAX's own CPU client. `cpus` is a list as taskset takes it: XLA makes
   * a thread for each.
   */
  static async open(options: {
    readonly python: string;
    readonly cpus: string;
    readonly safetensorsPath: string;
    readonly batch: number;
    readonly pluginPath?: string;
  }): Promise<JaxNetwork> {
    const { python, cpus, safetensorsPath, batch, pluginPath = "" } = options;
    const args = ["-c", cpus, python, PROGRAM, safetensorsPath, String(batch), pluginPath];
    const child = spawn("taskset", args, {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, PJRT_NPROC: "1" },
    });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const { value: name, done } = await lines.next();
    if (done) throw new Error("JAX ended before it was ready");
    return new JaxNetwork(child, lines, name);
  }

  private constructor(child: ChildProcess, lines: AsyncIterator<string>, name: string) {
    this.#child = child;
    this.#lines = lines;
    this.name = name;
  }

  /** Microseconds a call, from NumPy to NumPy, over so many calls. */
  async micros(calls: number): Promise<number> {
    this.#child.stdin!.write(`${calls}\n`);
    const { value, done } = (await this.#lines.next()) as IteratorResult<string, undefined>;
    if (done) throw new Error("JAX ended");
    return Number(value);
  }

  close(): void {
    this.#child.stdin!.end();
  }
}
