import { setTimeout as sleep } from 'node:timers/promises';
import { type Logger, messageOf, TributaryError } from '@tributary/core';
import { translateSqliteError } from '../../adapters/sqlite/database.ts';

/** What a process needs was not there in time. */
export class NotStarted extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NotStarted';
  }
}

/** Until when a starting process waits for its engines. */
export interface Patience {
  /** Of `performance.now()`, ms. */
  readonly deadline: number;
  readonly startTimeoutMs: number;
  readonly logger: Logger;
}

export function startPatience(startTimeoutMs: number, logger: Logger): Patience {
  return { deadline: performance.now() + startTimeoutMs, startTimeoutMs, logger };
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/**
 * What `attempt` resolves to, tried again while an engine does not answer. Rejects with `NotStarted` when the time is
 * over, with anything else that it throws at once. Every failure is logged: engines and processes start in any order,
 * and whoever looks wants to know what is waited for.
 */
export async function whenAvailable<T>(
  what: string,
  { deadline, startTimeoutMs, logger }: Patience,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 2)) {
    try {
      return await attempt();
    } catch (thrown) {
      // A file that another process keeps locked is an engine that does not answer.
      const error = translateSqliteError(thrown);
      if (!(error instanceof TributaryError) || !error.retryable) throw error;
      if (performance.now() + pause >= deadline) {
        throw new NotStarted(
          `${what}: not possible within TRIBUTARY_START_TIMEOUT (${startTimeoutMs / 1000} s): ${messageOf(error)}`,
          { cause: error },
        );
      }
      logger.warn({ error: messageOf(error) }, `${what}: not possible yet; trying again`);
      await sleep(pause);
    }
  }
}
