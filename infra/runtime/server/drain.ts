import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@tributary/core';
import type { Readiness } from '../observability/readiness.ts';
import type { Leaving } from '../process/run-until-told.ts';
import type { RunningServer } from './server.ts';

/**
 * Serves on for `ms` after the process was told to leave, while `/readyz` says 503: until load balancers have polled it
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

/** A process that was told to leave is not ready, whatever its parts say. */
export function unlessLeaving({ isLeaving }: Leaving, readiness: Readiness): Readiness {
  return isLeaving ? { ready: false, checks: { process: 'leaving', ...readiness.checks } } : readiness;
}
