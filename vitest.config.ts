import { defineConfig } from 'vitest/config';

const report = process.env.TRIBUTARY_TEST_REPORT;

export default defineConfig({
  test: {
    pool: 'forks',
    globalSetup: ['test/engines/global-setup.ts'],
    execArgv: ['--disable-warning=ExperimentalWarning'],
    // Crashes, stops and deadlines meet a shared machine's pauses: one more try in CI, told in its report.
    retry: process.env.CI === undefined ? 0 : 1,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    reporters: report === undefined ? ['default'] : ['default', ['json', { outputFile: report }]],
    projects: [
      {
        extends: true,
        test: {
          name: 'embedded',
          include: ['**/*.spec.ts'],
          exclude: ['**/node_modules/**', '**/data/**'],
        },
      },
      // The same flows, against a gateway and a processor on the real engines.
      {
        extends: true,
        test: {
          name: 'cluster',
          include: ['test/flows/**/*.spec.ts'],
          globalSetup: ['test/engines/skip-without-engines.ts'],
          env: { TRIBUTARY_TEST_WIRING: 'cluster' },
        },
      },
    ],
  },
});
