import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { serveControl } from '../suite/control-process.ts';

serveControl(openIsolatedVmSandbox({ processes: 2, metrics: NO_METRICS, logger: NO_LOGGER }));
