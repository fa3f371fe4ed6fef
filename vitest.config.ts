import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

const inCi = process.env.CI !== undefined;
const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;

// The folder and suffix of a spec decide where it runs, as CONTRIBUTING.md describes.
const UNITS = ['{core,gateway,processors,connectors,infra,console}/**/*.spec.ts'];
const IN_PROCESS = ['test/{gateway,stages}/**/*.spec.ts'];
const PORTS = ['test/conformance/**/*.spec.ts'];
const CONSOLE = ['test/console/**/*.spec.ts'];
const ALONE = isLong ? '{alone,long-alone}' : 'alone';
const ALL_ALONE = [`test/**/*.${ALONE}.spec.ts`];
const LONG_ONLY = isLong ? [] : ['test/**/*.long{,.alone}.spec.ts'];
const ON_CLUSTER = isLong
  ? ['test/{flows,sdks}/**/*.spec.ts', 'test/console/newcomer.spec.ts']
  : ['test/flows/**/*.cluster.spec.ts'];

/** Two more than there are cores: a file of tests waits for more than half of its time. */
const IN_PARALLEL = { sequence: { groupOrder: 1 }, maxWorkers: availableParallelism() + 2 };
const ONE_BY_ONE = { sequence: { groupOrder: 2 }, maxWorkers: 1 };
const without = (...others: readonly string[]) => [
  ...configDefaults.exclude,
  '**/data/**',
  ...others,
  ...ALL_ALONE,
  ...LONG_ONLY,
];
/** Starts the engines that the tests share; the specs beside the code need none. */
const ENGINES = 'test/engines/global-setup.ts';
const WITH_ENGINES = { globalSetup: [ENGINES] };
const BUILT_PAGES = 'test/console/helpers/global-setup.ts';
const ON_ENGINES = {
  globalSetup: [ENGINES, 'test/engines/skip-without-engines.ts', ...(isLong ? [BUILT_PAGES] : [])],
  env: { TRIBUTARY_TEST_WIRING: 'cluster' },
};

export default defineConfig({
  test: {
    pool: 'forks',
    // Node reads TypeScript itself, and keeps what it compiled: a fourth less of processor time than by way of Vite.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    globalSetup: ['test/compile-cache.ts'],
    execArgv: ['--disable-warning=ExperimentalWarning'],
    // Where an engine is gone, each test that is left would wait until its time is over, twice.
    bail: inCi ? 200 : 0,
    // A test that waits for something waits as long as it takes on a machine that others keep busy, and no test is tried
    // again: one that fails once is a fault of the product or of the test. A time that is promised has its own bound.
    testTimeout: 180_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ['default', './test/tally.ts'],
    // On demand: `npm run coverage`.
    coverage: {
      provider: 'v8',
      reporter: ['text-summary', 'html', 'lcov'],
      include: ['{core,gateway,processors,connectors,infra}/**/*.ts'],
      exclude: ['**/*.spec.ts', '**/*.d.ts'],
    },
    // Groups run one after the other, and the projects of a group in the order of their names, the largest files first: the
    // short files of `units` fill the end.
    projects: [
      // Files share a process, one after the other: to load what they test costs more than most of them take.
      {
        extends: true,
        test: { name: 'units', ...IN_PARALLEL, isolate: false, include: UNITS, exclude: without() },
      },
      {
        extends: true,
        test: {
          name: 'in process',
          ...IN_PARALLEL,
          isolate: false,
          include: IN_PROCESS,
          exclude: without(),
          ...WITH_ENGINES,
        },
      },
      {
        extends: true,
        test: {
          name: 'ports',
          ...IN_PARALLEL,
          isolate: false,
          include: PORTS,
          exclude: without(),
          ...WITH_ENGINES,
        },
      },
      {
        extends: true,
        test: {
          name: 'embedded',
          isolate: false,
          ...IN_PARALLEL,
          include: ['test/**/*.spec.ts'],
          exclude: without(...IN_PROCESS, ...PORTS, ...CONSOLE),
          ...WITH_ENGINES,
        },
      },
      // Pages in Chromium, on a server of their own and on SQLite alone.
      {
        extends: true,
        test: {
          name: 'console',
          isolate: false,
          ...IN_PARALLEL,
          include: CONSOLE,
          exclude: without(),
          globalSetup: [BUILT_PAGES],
        },
      },
      // Flows against a gateway and a processor on the real engines; in the long run all of them, the SDKs, and a newcomer's
      // way through the console.
      {
        extends: true,
        test: {
          name: 'cluster',
          ...IN_PARALLEL,
          isolate: false,
          include: ON_CLUSTER,
          exclude: without(),
          ...ON_ENGINES,
        },
      },
      {
        extends: true,
        test: {
          name: 'alone',
          ...ONE_BY_ONE,
          include: ALL_ALONE,
          exclude: [...configDefaults.exclude, ...LONG_ONLY],
          ...WITH_ENGINES,
        },
      },
      ...(isLong
        ? [
            {
              extends: true as const,
              test: {
                name: 'cluster alone',
                ...ONE_BY_ONE,
                include: [`test/flows/**/*.${ALONE}.spec.ts`],
                ...ON_ENGINES,
              },
            },
          ]
        : []),
    ],
  },
});
