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
  Position,
  StageContext,
} from '@tributary/core';
import {
  eventKey,
  eventName,
  formatPosition,
  HEADER,
  HeldThread,
  InvalidInput,
  parsePosition,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { awaitCatalog } from '../causality.ts';
import { catalogPositionOf, eventHeaders, eventOf } from '../entry.ts';
import type { FairShare } from '../fairness/fair-share.ts';
import { SliceCosts } from '../fairness/slice-costs.ts';
import { laterMs, type SlowTurns } from '../fairness/slow-turns.ts';
import type { ThreadTime } from '../fairness/thread-time.ts';
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

/** A received event, and the position at which the gateway made it durable. */
interface Received {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
  readonly position: Position;
}

/**
 * Drops repeated events and holds each other one against its contract as of the catalog position it carries.
 * A replay drops and judges the same: the winner of a message id is a position, the contract belongs to a position.
 * The next batch of a partition waits for this one, so only others' work is done while the thread is given back.
 * Events of a workspace that takes more than its share go on to `validate.slow`, which judges them as of the same
 * catalog position and deduplicates them by the same position: whichever of the two stages emits an event, it is once.
 */
export function validate(
  dependencies: ValidateDependencies & { readonly threadTime: ThreadTime },
  share: FairShare,
): BatchStage['process'] {
  const { catalog, metrics, elapsed, catalogWaitMs } = dependencies;
  return async (batch, { signal, endBatch }): Promise<readonly Emission[]> => {
    await awaitCatalog(catalog, batch.entries, catalogWaitMs);
    const received = batch.entries.map((entry) => ({
      entry,
      event: eventOf(entry),
      position: entry.position,
    }));
    const first = await claim(dependencies, received);
    const outcomes = new Map<string, number>();
    const emissions: Emission[] = [];
    const thread = new HeldThread(elapsed);
    const costs = new SliceCosts(share, elapsed, dependencies.threadTime.cpu);
    let deferred = 0;
    let chars = 0;
    for (const [index, { entry, event }] of received.entries()) {
      if (thread.isDueToRest) {
        costs.end();
        await thread.rest();
        costs.restart();
        if (signal.aborted) throw new Unavailable('the partition was lost');
      }
      if (first[index] === true && share.sendsSlow(event.workspace_id)) {
        chars += add(emissions, [toSlowQueue(entry, event)]);
        deferred += 1;
        if (isFull(chars, index + 1, endBatch)) break;
        continue;
      }
      const judged = first[index] === true ? judge(dependencies, entry, event) : undefined;
      note(outcomes, judged);
      costs.note(event.workspace_id);
      if (judged === undefined) continue;
      chars += add(emissions, judgementOf(judged));
      if (isFull(chars, index + 1, endBatch)) break;
    }
    costs.end();
    count(metrics, outcomes);
    if (deferred > 0) metrics.count('tributary_events_deferred_total', { stage: 'validate' }, deferred);
    return emissions;
  };
}

/** The same for the events that `validate` sent on, in turns of their workspaces. */
export function validateSlow(dependencies: ValidateDependencies, turns: SlowTurns): BatchStage['process'] {
  const { catalog, metrics, catalogWaitMs } = dependencies;
  return async (batch, { signal, endBatch }): Promise<readonly Emission[]> => {
    await awaitCatalog(catalog, batch.entries, catalogWaitMs);
    const received = batch.entries.map((entry) => ({
      entry,
      event: eventOf(entry),
      position: receivedPositionOf(entry),
    }));
    const first = await claim(dependencies, received);
    const outcomes = new Map<string, number>();
    const emissions: Emission[] = [];
    let chars = 0;
    for (const [index, { entry, event }] of received.entries()) {
      if (first[index] !== true) {
        note(outcomes, undefined);
        continue;
      }
      const { judged, emitted } = await turns.run(
        event.workspace_id,
        () => {
          const judged = judge(dependencies, entry, event);
          return { judged, emitted: judgementOf(judged) };
        },
        (result) => laterMs(result.emitted),
      );
      if (signal.aborted) throw new Unavailable('the partition was lost');
      note(outcomes, judged);
      chars += add(emissions, emitted);
      if (isFull(chars, index + 1, endBatch)) break;
    }
    count(metrics, outcomes);
    return emissions;
  };
}

function claim(
  { deduplicator }: Pick<ValidateDependencies, 'deduplicator'>,
  received: readonly Received[],
): Promise<readonly boolean[]> {
  return deduplicator.claim(
    received.map(({ event, position }) => ({
      workspaceId: event.workspace_id,
      environment: event.environment,
      messageId: event.message_id,
      position,
    })),
  );
}

/** Adds the emissions of one event; returns their characters. */
function add(emissions: Emission[], added: readonly Emission[]): number {
  let chars = 0;
  for (const emission of added) {
    emissions.push(emission);
    chars += emission.value.length;
  }
  return chars;
}

/** Whether a batch has enough emissions: then it ends after so many entries, and the others come with the next one. */
function isFull(chars: number, entries: number, endBatch: StageContext['endBatch']): boolean {
  if (chars < BATCH_CHARS || endBatch === undefined) return false;
  endBatch(entries);
  return true;
}

function note(outcomes: Map<string, number>, judged: Judged | undefined): void {
  const outcome = judged === undefined ? 'duplicate' : (judged.verdict?.outcome ?? 'accepted');
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
}

function count(metrics: Metrics, outcomes: ReadonlyMap<string, number>): void {
  for (const [outcome, number] of outcomes)
    metrics.count('tributary_events_validated_total', { outcome }, number);
}

/** The received event as it is, with its position; its headers name it, so that a trace finds it there. */
function toSlowQueue(entry: LogEntry, event: CanonicalEvent): Emission {
  return {
    topic: TOPIC.receivedSlow,
    key: eventKey(event),
    value: entry.value,
    headers: {
      ...entry.headers,
      ...eventHeaders(event, entry.headers, catalogPositionOf(entry)),
      [HEADER.receivedPosition]: formatPosition(entry.position),
    },
  };
}

function receivedPositionOf(entry: LogEntry): Position {
  const position = parsePosition(entry.headers[HEADER.receivedPosition] ?? '');
  if (position === undefined) throw new InvalidInput('no position of the received event');
  return position;
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
