/** Starts a fake server under a guard, as the bench does, and waits to be killed. Arguments: port, notify port, log file. */
import { ProcessGuard } from "../src/process-guard.ts";
import { ServerProcess } from "../src/server-process.ts";
import { fakeServerCommand } from "./fake-arm.ts";

const [port = "0", notifyPort = "0", logFile = ""] = process.argv.slice(2);
const command = fakeServerCommand(Number(port), "stubborn", Number(notifyPort));
const server = new ServerProcess({ command, logFile, guard: new ProcessGuard() });
await server.exited;
