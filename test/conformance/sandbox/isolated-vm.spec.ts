// Runs alone: it holds times and pauses beside programs that eat all they get.
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { describeHostileCode } from './hostile.conformance.ts';
import { describeReplay } from './replay.conformance.ts';
import { describeSandbox } from './sandbox.conformance.ts';

const open = () => openIsolatedVmSandbox({ processes: 1, metrics: NO_METRICS, logger: NO_LOGGER });

describeSandbox('isolated-vm', open);
describeReplay('isolated-vm', open);
describeHostileCode('isolated-vm', () =>
  openIsolatedVmSandbox({ processes: 2, metrics: NO_METRICS, logger: NO_LOGGER }),
);
