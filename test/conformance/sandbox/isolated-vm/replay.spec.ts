import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { describeReplay } from '../suite/replay.conformance.ts';

/**
 * The programs of the suite use locales, which a new isolate loads: on a slow machine that may take most of 100 ms. And what
 * a worker was killed for makes the others of its batch wait in the idle class: 25 times this long, while both cores are busy.
 */
const AMPLE = { eventMs: 1_000, watchdogMs: 3_000 } as const;

describeReplay('isolated-vm', () =>
  openIsolatedVmSandbox({
    processes: 1,
    metrics: NO_METRICS,
    logger: NO_LOGGER,
    restartDelayMs: 50,
    ...AMPLE,
  }),
);
