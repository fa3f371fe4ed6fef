import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { describeReplay } from '../suite/replay.conformance.ts';

describeReplay('isolated-vm', () =>
  openIsolatedVmSandbox({ processes: 1, metrics: NO_METRICS, logger: NO_LOGGER, restartDelayMs: 50 }),
);
