import { setTimeout as sleep } from 'node:timers/promises';
import {
  backoffMs,
  type Catalog,
  type Logger,
  messageOf,
  type ReadDiskLevel,
  TributaryError,
  UNLIMITED_DISK,
} from '@tributary/core';
import { translateSqliteError } from '../../adapters/sqlite/database.ts';
import { OperatorError } from './lifecycle.ts';

/** An engine did not answer before the start deadline. */
export class NotStarted extends OperatorError {}

/** How long a starting process waits for its engines. */
export interface StartDeadline {
  /** By `performance.now()`, ms. */
  readonly at: number;
  readonly startTimeoutMs: number;
  /** There is no deadline while the disk is full: another start would find it as full. */
  readonly diskLevel?: ReadDiskLevel;
  readonly logger: Logger;
}

export function startDeadline(
  startTimeoutMs: number,
  logger: Logger,
  diskLevel = UNLIMITED_DISK,
): StartDeadline {
  return { at: performance.now() + startTimeoutMs, startTimeoutMs, diskLevel, logger };
}

const BACKOFF = { firstMs: 100, capMs: 2_000 };
const SHORTEST_CATCH_UP_MS = 1_000;

/**
 * Repeats `attempt` while it fails with a retryable error, and resolves to its result. Rejects with `NotStarted` at the
 * deadline, and with any other error at once. Every failure is logged: engines and processes start in any order, and the
 * operator needs to know what a process waits for.
 */
export async function untilAvailable<T>(
  what: string,
  { at, startTimeoutMs, diskLevel = UNLIMITED_DISK, logger }: StartDeadline,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await attempt();
    } catch (thrown) {
      // A file locked by another process counts as an engine that does not answer.
      const error = translateSqliteError(thrown);
      if (!(error instanceof TributaryError) || !error.retryable) throw error;
      const pauseMs = backoffMs(failures, BACKOFF);
      if (performance.now() + pauseMs >= at && diskLevel() !== 'full') {
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

/** Waits until the catalog is read up to its current end. */
export function catchUp(catalog: Catalog, deadline: StartDeadline): Promise<void> {
  return untilAvailable('reading the catalog', deadline, () =>
    catalog.catchUp(Math.max(SHORTEST_CATCH_UP_MS, deadline.at - performance.now())),
  );
}
