import { runServeCommand } from "@dlrm/server";

// A server in which something else goes wrong, when it is told to.
process.on("SIGUSR2", () => {
  throw new Error("thrown where nobody catches");
});
process.on("SIGHUP", () => {
  void Promise.reject(new Error("rejected where nobody waits"));
});
process.exit(await runServeCommand(process.argv.slice(2)));
