import type { EventLog } from '../log/event-log.ts';
import type { CountsForm } from '../log/stage.ts';
import { TOPIC } from '../log/topics.ts';
import type { ScopeBytes } from '../ports/counters.ts';
import { TributaryError } from '../primitives/errors.ts';
import { BytesTally } from './bytes.ts';
import { countRecords } from './count-records.ts';

/** Counts bytes that were appended to the log. Rejects where the log refuses the count for good. */
export type CountWritten = (bytes: Iterable<ScopeBytes>) => Promise<void>;

/**
 * Counts bytes that no stage writes: appends them to `funnel.counts`. Those whose append failed are counted with the next
 * ones; a crash loses those of one call.
 */
export function countWritten(log: Pick<EventLog, 'append'>, form?: () => CountsForm): CountWritten {
  let uncounted = new BytesTally();
  return async (bytes) => {
    for (const one of bytes) uncounted.add(one);
    const counted = uncounted;
    uncounted = new BytesTally();
    await log.append(TOPIC.funnelCounts, countRecords([], counted, form?.())).catch((error: unknown) => {
      // The bytes are in the log, and must not be appended again for their count.
      if (!(error instanceof TributaryError && error.retryable)) throw error;
      for (const one of counted) uncounted.add(one);
    });
  };
}
