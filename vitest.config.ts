import { defineConfig } from "vitest/config";

const source = ["@dlrm/source"];

export default defineConfig({
  resolve: { conditions: [...source, "node", "import", "module", "default"] },
  ssr: { resolve: { conditions: [...source, "node", "import", "module", "default"], externalConditions: source } },
  test: {
    include: ["packages/**/src/**/*.test.ts", "packages/**/test/**/*.test.ts", "tools/**/*.test.mts"],
    exclude: ["**/node_modules/**", "**/dist/**"],
    pool: "forks",
    // Workers and child processes that tests start read packages from source, like the tests themselves.
    execArgv: ["--conditions=@dlrm/source"],
    globalSetup: ["tools/python-for-tests.mts"],
    reporters: ["default", "./tools/test-count-reporter.mts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Two workers fit the smallest machine that is supported: with more, single tests come near their timeouts.
    maxWorkers: 2,
  },
});
