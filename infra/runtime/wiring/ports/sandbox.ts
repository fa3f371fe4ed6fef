import type { Logger, Metrics } from '@tributary/core';
import {
  type IsolatedVmSandbox,
  type IsolatedVmSandboxOptions,
  limitsFor,
  openIsolatedVmSandbox,
} from '../../../adapters/sandbox/isolated-vm/index.ts';
import type { Config } from '../../config/settings.ts';
import { confinementOf } from '../../process/confinement.ts';

/** A sandbox with the operator's limits. */
export function openSandbox(
  config: Config,
  tools: { readonly logger: Logger; readonly metrics: Metrics },
  workers: Pick<IsolatedVmSandboxOptions, 'processes' | 'isLazy'>,
): IsolatedVmSandbox {
  return openIsolatedVmSandbox({
    ...limitsFor({ eventMs: config.sandboxTime, isolateMb: config.sandboxMemory }),
    ...workers,
    ...confinementOf(config),
    logger: tools.logger,
    metrics: tools.metrics,
  });
}
