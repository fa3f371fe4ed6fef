import {
  type Catalog,
  type Counters,
  type Logger,
  type Metrics,
  messageOf,
  NO_METRICS,
  type ReadDiskRoom,
  repeat,
  STORAGE_BUDGETS,
  StorageBudgets,
} from '@tributary/core';
import type { Config } from '../config/settings.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** How often the bytes of this hour and of the last one are read. Bytes that this process writes itself are known at once. */
const HOURS_EVERY_MS = 2_000;
/** How often the bytes of all days that the log keeps are read. */
const DAYS_EVERY_MS = 30_000;
const LOG_EVERY_MS = 60_000;

interface BudgetTools {
  readonly counters: Pick<Counters, 'bytes'>;
  readonly catalog: Pick<Catalog, 'state'>;
  /** Default: no disk is measured. */
  readonly diskRoom?: ReadDiskRoom | undefined;
  /** Absent: another thread of the process reports the same. */
  readonly metrics?: Metrics;
  readonly logger: Logger;
}

export interface WatchedBudgets {
  readonly budgets: StorageBudgets;
  close(): void;
}

/** The budgets of this process, with the usage that the counters have, read every few seconds: two rows a workspace. */
export function watchBudgets(
  config: Pick<Config, 'bytesPerHour' | 'bytesHeld' | 'kafkaBrokers' | 'retentionMs'>,
  { counters, catalog, diskRoom = () => undefined, metrics = NO_METRICS, logger }: BudgetTools,
): WatchedBudgets {
  const budgets = new StorageBudgets({ limits: storageLimits(config), catalog, diskRoom, clock: Date.now });
  let heldReadAt = Number.NEGATIVE_INFINITY;
  let loggedAt = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  async function read(): Promise<void> {
    const now = Date.now();
    const hour = now - (now % HOUR_MS);
    const [current, before] = [
      await counters.bytes('hour', hour),
      await counters.bytes('hour', hour - HOUR_MS),
    ];
    if (now - heldReadAt >= DAYS_EVERY_MS) {
      budgets.readHeld(await heldBytes(counters, now, config.retentionMs));
      heldReadAt = now;
    }
    budgets.readHours(hour, current, before);
    for (const [budget, scopes] of budgets.over())
      metrics.gauge('tributary_storage_over_budget', scopes, { budget });
    const largest = budgets.largest();
    metrics.gauge('tributary_storage_largest_bytes', largest.written, { budget: STORAGE_BUDGETS[0] });
    metrics.gauge('tributary_storage_largest_bytes', largest.held, { budget: STORAGE_BUDGETS[1] });
  }

  async function round(): Promise<void> {
    try {
      await read();
    } catch (error) {
      if (!isClosed && Date.now() - loggedAt >= LOG_EVERY_MS) {
        loggedAt = Date.now();
        logger.warn(
          { error: messageOf(error) },
          'the bytes of the workspaces could not be read: budgets are checked with the last known ones',
        );
      }
    }
  }

  const rounds = repeat(round, HOURS_EVERY_MS);
  return {
    budgets,
    close() {
      isClosed = true;
      void rounds.close();
    },
  };
}

/** The default of an hour: on one machine that is twice what its disk and threads write of ordinary events. */
const BYTES_PER_HOUR = { embedded: 64 * 2 ** 30, kafka: 256 * 2 ** 30 } as const;

export function storageLimits({
  bytesPerHour,
  bytesHeld,
  kafkaBrokers,
}: Pick<Config, 'bytesPerHour' | 'bytesHeld' | 'kafkaBrokers'>) {
  return {
    bytesPerHour:
      bytesPerHour ?? (kafkaBrokers.length === 0 ? BYTES_PER_HOUR.embedded : BYTES_PER_HOUR.kafka),
    bytesHeld: bytesHeld ?? Number.POSITIVE_INFINITY,
  };
}

/** The bytes that the log keeps, by scope. Of the day in which the retention begins, its part. */
export async function heldBytes(
  counters: Pick<Counters, 'bytes'>,
  now: number,
  retentionMs: number,
): Promise<ReadonlyMap<string, number>> {
  const held = new Map<string, number>();
  const from = now - retentionMs;
  for (let day = from - (from % DAY_MS); day <= now; day += DAY_MS) {
    const part = Math.min(1, (day + DAY_MS - from) / DAY_MS);
    for (const { scope, received, written } of await counters.bytes('day', day))
      held.set(scope, (held.get(scope) ?? 0) + Math.floor((received + written) * part));
  }
  return held;
}
