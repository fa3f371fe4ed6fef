import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@tributary/core';
import type { Readiness } from '../observability/operations.ts';
import type { Shutdown } from '../process/run-until-signalled.ts';
import type { RunningServer } from './server.ts';

/**
 * Serves on for `ms` after the signal to shut down, while `/readyz` says 503: until load balancers have polled it
 * and send new requests elsewhere. In the second half each answer ends its connection (`connection: close`), so that
 * clients whose connections stay where they were opened, as behind a TCP balancer, move as well. Connections that are
 * still open after that are idle.
 */
export async function drain(
  server: Pick<RunningServer, 'endConnections'>,
  ms: number,
  logger: Logger,
): Promise<void> {
  if (ms === 0) return;
  logger.info({ ms }, 'draining: not ready any more, and serving until load balancers have noticed');
  await sleep(ms / 2);
  server.endConnections();
  await sleep(ms / 2);
}

/** A process that shuts down is not ready, whatever its parts report. */
export function unlessShuttingDown({ hasBegun }: Shutdown, readiness: Readiness): Readiness {
  return hasBegun ? { ready: false, checks: { process: 'shutting down', ...readiness.checks } } : readiness;
}
