/** Closes a test run with one plain line, `N passed, N failed, N skipped`, that any CI can read. */
import type { Reporter, TestModule } from "vitest/node";

export default class TestCountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) counts[test.result().state] += 1;
      if (module.state() === "failed" && [...module.children.allTests("failed")].length === 0) counts.failed += 1;
    }
    const skipped = counts.skipped + counts.pending;
    console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${skipped} skipped`);
  }
}
