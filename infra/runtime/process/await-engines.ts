import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs, type Catalog, type Logger, messageOf, TributaryError } from '@tributary/core';
import { translateSqliteError } from '../../adapters/sqlite/database.ts';

/** An engine that a process needs did not answer in time. */
export class NotStarted extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NotStarted';
  }
}

/** Until when a starting process waits for its engines. */
export interface StartDeadline {
  /** Of `performance.now()`, ms. */
  readonly at: number;
  readonly startTimeoutMs: number;
  readonly logger: Logger;
}

export function startDeadline(startTimeoutMs: number, logger: Logger): StartDeadline {
  return { at: performance.now() + startTimeoutMs, startTimeoutMs, logger };
}

const BACKOFF = { firstMs: 100, capMs: 2_000 };
const SHORTEST_CATCH_UP_MS = 1_000;

/**
 * What `attempt` resolves to, repeated while an engine does not answer. Rejects with `NotStarted` at the deadline, with
 * any error that is not retryable at once. Every failure is logged: engines and processes start in any order, and the
 * operator wants to know what a process waits for.
 */
export async function untilAvailable<T>(
  what: string,
  { at, startTimeoutMs, logger }: StartDeadline,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (thrown) {
      // A file that another process keeps locked is an engine that does not answer.
      const error = translateSqliteError(thrown);
      if (!(error instanceof TributaryError) || !error.retryable) throw error;
      const pauseMs = backoffMs(failures, BACKOFF);
      if (performance.now() + pauseMs >= at) {
        throw new NotStarted(
          `${what}: not possible within TRIBUTARY_START_TIMEOUT (${startTimeoutMs / 1000} s): ${messageOf(error)}`,
          { cause: error },
        );
      }
      logger.warn({ error: messageOf(error) }, `${what}: not possible yet; trying again`);
      await sleep(pauseMs);
    }
  }
}

/** Waits until the catalog was read up to where it ends now. */
export function catchUp(catalog: Catalog, deadline: StartDeadline): Promise<void> {
  return untilAvailable('reading the catalog', deadline, () =>
    catalog.catchUp(Math.max(SHORTEST_CATCH_UP_MS, deadline.at - performance.now())),
  );
}
