import type {
  BatchStage,
  CanonicalEvent,
  Catalog,
  Claimant,
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
import { evaluated, evaluationRecords, type Judged } from './judgement.ts';

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

/** A received event, and the position by which it is deduplicated: where the gateway made it durable. */
interface Received {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
  readonly position: Position;
}

/** An event with its verdict, and what becomes of it where it is no repeat. */
interface Candidate extends Received {
  readonly judged: Judged;
  readonly emissions: readonly Emission[];
}

/**
 * Holds each event against its contract as of the catalog position it carries, and drops repeated ones. An event takes its
 * message id only where its contract lets it pass: a rejected one leaves the id to a corrected event, at no time and
 * by no crash having held it. Repeats of a rejected event are rejected events of the same id behind the first one.
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
    const taken: (Candidate | Emission)[] = [];
    const thread = new HeldThread(elapsed);
    const costs = new SliceCosts(share, elapsed, dependencies.threadTime.cpu);
    let deferred = 0;
    let chars = 0;
    for (const [index, entry] of batch.entries.entries()) {
      if (thread.isDueToRest) {
        costs.end();
        await thread.rest();
        costs.restart();
        if (signal.aborted) throw new Unavailable('the partition was lost');
      }
      const event = eventOf(entry);
      if (share.sendsSlow(event.workspace_id)) {
        const emission = toSlowQueue(entry, event);
        taken.push(emission);
        chars += emission.value.length;
        deferred += 1;
      } else {
        const candidate = candidateOf(dependencies, { entry, event, position: entry.position });
        costs.note(event.workspace_id);
        taken.push(candidate);
        chars += charsOf(candidate.emissions);
      }
      if (isFull(chars, index + 1, endBatch)) break;
    }
    costs.end();
    const emissions = await withoutRepeats(dependencies, taken);
    if (deferred > 0) metrics.count('tributary_events_deferred_total', { stage: 'validate' }, deferred);
    return emissions;
  };
}

interface SlowDependencies extends ValidateDependencies {
  /** Of re-evaluated events. */
  readonly reevaluations: Pick<Deduplicator, 'claim'>;
}

/**
 * The same for the events that `validate` sent on, in turns of their workspaces, and for rejected ones that a replay sends
 * to be evaluated once more.
 */
export function validateSlow(dependencies: SlowDependencies, turns: SlowTurns): BatchStage['process'] {
  const { catalog, catalogWaitMs, reevaluations } = dependencies;
  return async (batch, { signal, endBatch }): Promise<readonly Emission[]> => {
    await awaitCatalog(catalog, batch.entries, catalogWaitMs);
    const taken: Candidate[] = [];
    let chars = 0;
    for (const [index, entry] of batch.entries.entries()) {
      const event = eventOf(entry);
      const received = { entry, event, position: receivedPositionOf(entry) };
      const candidate = await turns.run(
        event.workspace_id,
        () => candidateOf(dependencies, received),
        (result) => laterMs(result.emissions),
      );
      if (signal.aborted) throw new Unavailable('the partition was lost');
      taken.push(candidate);
      chars += charsOf(candidate.emissions);
      if (isFull(chars, index + 1, endBatch)) break;
    }
    return withoutRepeats(dependencies, await withoutReevaluated(reevaluations, taken));
  };
}

/**
 * Drops re-evaluated events that their contract still rejects, as they are recorded already, and those that another
 * replay took first or that were accepted since. The claim is by the entry of the slow queue: a crash repeats the entry,
 * another replay makes another one. The message id is claimed after this, likewise by that entry.
 */
async function withoutReevaluated(
  reevaluations: Pick<Deduplicator, 'claim'>,
  taken: readonly Candidate[],
): Promise<readonly Candidate[]> {
  const again = taken.filter((one) => isReevaluated(one.entry) && !isRejected(one));
  const first = again.length === 0 ? [] : await reevaluations.claim(again.map(claimantOf));
  const kept = new Set(again.filter((_, at) => first[at]));
  return taken.filter((one) => !isReevaluated(one.entry) || kept.has(one));
}

function isReevaluated({ headers }: LogEntry): boolean {
  return headers[HEADER.reevaluatedBy] !== undefined;
}

function isRejected({ judged }: Candidate): boolean {
  return judged.verdict?.outcome === 'rejected';
}

function candidateOf(dependencies: ValidateDependencies, received: Received): Candidate {
  const { entry, event, position } = received;
  const found = evaluated(dependencies, event, catalogPositionOf(entry));
  const judged: Judged =
    found === undefined
      ? { entry, event, position }
      : { entry, event, position, contract: found.contract, verdict: found.verdict };
  return { ...received, judged, emissions: evaluationRecords(judged) };
}

/** Claims the message ids of the candidates, in order; what the others emit stays where it was. */
async function withoutRepeats(
  { deduplicator, metrics }: Pick<ValidateDependencies, 'deduplicator' | 'metrics'>,
  taken: readonly (Candidate | Emission)[],
): Promise<readonly Emission[]> {
  const claimants: Claimant[] = [];
  for (const one of taken) if ('judged' in one) claimants.push(claimantOf(one));
  const first = await deduplicator.claim(claimants);
  const outcomes = new Map<string, number>();
  const emissions: Emission[] = [];
  let at = 0;
  for (const one of taken) {
    if (!('judged' in one)) {
      emissions.push(one);
      continue;
    }
    const isFirst = first[at++] === true;
    note(outcomes, isFirst ? one.judged : undefined);
    if (isFirst) emissions.push(...one.emissions);
  }
  count(metrics, outcomes);
  return emissions;
}

function claimantOf(candidate: Candidate): Claimant {
  const { event, position } = candidate;
  const claimant = {
    workspaceId: event.workspace_id,
    environment: event.environment,
    messageId: event.message_id,
    position,
  };
  return isRejected(candidate) ? { ...claimant, rejected: true } : claimant;
}

function charsOf(emissions: readonly Emission[]): number {
  let chars = 0;
  for (const { value } of emissions) chars += value.length;
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
  if (isReevaluated(entry)) return entry.position;
  const position = parsePosition(entry.headers[HEADER.receivedPosition] ?? '');
  if (position === undefined) throw new InvalidInput('no position of the received event');
  return position;
}
