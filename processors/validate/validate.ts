import type {
  BatchStage,
  CanonicalEvent,
  Catalog,
  Clock,
  ContractEvaluator,
  Deduplicator,
  Emission,
  LogEntry,
  Metrics,
} from '@tributary/core';
import { eventName, HeldThread, Unavailable } from '@tributary/core';
import { awaitCatalog } from '../causality.ts';
import { catalogPositionOf, eventOf } from '../entry.ts';
import { type Judged, judgementOf } from './judgement.ts';

/** Characters of emissions after which a batch ends: an event of 300 bytes may have a hundred violations. */
const BATCH_CHARS = 4 * 1024 * 1024;

export interface ValidateDependencies {
  readonly catalog: Catalog;
  readonly deduplicator: Deduplicator;
  readonly contracts: ContractEvaluator;
  readonly metrics: Metrics;
  /** ms that never go back. */
  readonly elapsed: Clock;
  readonly catalogWaitMs: number;
}

/**
 * Drops repeated events and holds each other one against its contract as of the catalog position it carries.
 * A replay drops and judges the same: the winner of a message id is a position, the contract belongs to a position.
 * The next batch of a partition waits for this one, so only others' work is done while the thread is given back.
 */
export function validate(dependencies: ValidateDependencies): BatchStage['process'] {
  const { catalog, deduplicator, metrics, elapsed, catalogWaitMs } = dependencies;
  return async (batch, { signal, endBatch }): Promise<readonly Emission[]> => {
    await awaitCatalog(catalog, batch.entries, catalogWaitMs);
    const received = batch.entries.map((entry) => ({ entry, event: eventOf(entry) }));
    const first = await deduplicator.claim(
      received.map(({ entry, event }) => ({
        workspaceId: event.workspace_id,
        environment: event.environment,
        messageId: event.message_id,
        position: entry.position,
      })),
    );
    const outcomes = new Map<string, number>();
    const emissions: Emission[] = [];
    const thread = new HeldThread(elapsed);
    let chars = 0;
    for (const [index, { entry, event }] of received.entries()) {
      if (thread.isDueToRest) {
        await thread.rest();
        if (signal.aborted) throw new Unavailable('the partition was lost');
      }
      const judged = first[index] === true ? judge(dependencies, entry, event) : undefined;
      const outcome = judged === undefined ? 'duplicate' : (judged.verdict?.outcome ?? 'accepted');
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      if (judged === undefined) continue;
      for (const emission of judgementOf(judged)) {
        emissions.push(emission);
        chars += emission.value.length;
      }
      if (chars >= BATCH_CHARS && endBatch !== undefined) {
        endBatch(index + 1);
        break;
      }
    }
    for (const [outcome, count] of outcomes) {
      metrics.count('tributary_events_validated_total', { outcome }, count);
    }
    return emissions;
  };
}

function judge(
  { catalog, contracts }: Pick<ValidateDependencies, 'catalog' | 'contracts'>,
  entry: LogEntry,
  event: CanonicalEvent,
): Judged {
  const position = catalogPositionOf(entry);
  const contract = catalog.state.contractAt(event.workspace_id, event.type, eventName(event), position);
  if (contract === undefined) return { entry, event };
  return { entry, event, contract, verdict: contracts.evaluate(contract, event) };
}
