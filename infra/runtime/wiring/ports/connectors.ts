import { createConnectors } from '@tributary/connectors';
import type { Logger, Metrics } from '@tributary/core';
import type { Config } from '../../config/settings.ts';
import { confinementOf } from '../../process/confinement.ts';

/** The connectors of a process, all with the same way out. */
export function openConnectors(
  config: Config,
  tools: { readonly logger: Logger; readonly metrics: Metrics },
) {
  return createConnectors({
    egressAllow: config.egressAllow,
    dataFolder: config.dataFolder,
    confinement: confinementOf(config),
    timeoutMs: config.deliveryTimeout,
    clock: Date.now,
    logger: tools.logger,
    metrics: tools.metrics,
  });
}
