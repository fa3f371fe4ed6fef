import {
  type BatchStage,
  BytesTally,
  type CanonicalEvent,
  type ContractEvaluator,
  type ContractVerdict,
  type CountedEvent,
  countedEvent,
  type DedupeClaim,
  type Deduplicator,
  EventLoopYielder,
  eventKey,
  formatPosition,
  HEADER,
  InvalidInput,
  type LogEntry,
  type Metrics,
  measureText,
  type OutputRecord,
  type Position,
  parsePosition,
  receptionTime,
  recordChars,
  type StageContext,
  type StageNote,
  type ThreadTurns,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { awaitCatalog, catalogPositionOf } from '../catalog-position.ts';
import { eventHeaders, eventOf } from '../event-record.ts';
import {
  downstreamMs,
  type FairShare,
  recordsBehindMs,
  SliceCosts,
  type ThreadTime,
} from '../fairness/fair-share.ts';
import type { StageParts } from '../stages.ts';
import { type Evaluated, evaluateAt, evaluationRecords } from './evaluation.ts';

/** Characters of output records after which a batch ends: the violations of an event may be ten times its size. */
const BATCH_CHARS = 4 * 1024 * 1024;

export interface ValidateDependencies
  extends Pick<StageParts, 'catalog' | 'metrics' | 'elapsed' | 'budgets'> {
  readonly deduplicator: Deduplicator;
  readonly contracts: ContractEvaluator;
}

/** An evaluated event and its output records, which are emitted unless it is a repeat. */
interface Candidate extends Evaluated {
  readonly outputRecords: readonly OutputRecord[];
}

/**
 * The stage `validate`: evaluates each event against its contract at the event's catalog position, and drops repeats.
 *
 * - An event claims its message id only where its contract accepts it. A rejected event never claims the id, so that a
 *   corrected event can have it; repeats of a rejected event are dropped.
 * - Deterministic: a message id is claimed by a position, and the contract belongs to a catalog position, so a repeated
 *   batch has the same output records, apart from violations of a workspace that is over a budget by then.
 * - The next batch of the partition waits for this one; the thread is yielded to other work meanwhile.
 * - Events of a workspace beyond its fair share go to `validate.slow`, which uses the same catalog position and the same
 *   position for deduplication, so that an event is emitted once, by either stage.
 */
export function validate(
  dependencies: ValidateDependencies & { readonly threadTime: ThreadTime },
  share: FairShare,
): BatchStage['process'] {
  const { catalog, metrics, elapsed } = dependencies;
  return async (batch, context): Promise<readonly OutputRecord[]> => {
    const { signal, endBatch } = context;
    await awaitCatalog(catalog, batch.entries);
    const received = new BytesTally();
    const taken: (Candidate | OutputRecord)[] = [];
    const thread = new EventLoopYielder(elapsed);
    const costs = new SliceCosts(share, elapsed, dependencies.threadTime.cpu);
    let diverted = 0;
    let chars = 0;
    for (const [index, entry] of batch.entries.entries()) {
      if (thread.isYieldDue) {
        costs.end();
        await thread.yield();
        costs.restart();
        if (signal.aborted) throw new Unavailable('the partition was lost');
      }
      const event = eventOf(entry);
      received.received(event.workspace_id, Buffer.byteLength(entry.value) + entry.key.length);
      if (share.goesToSlowQueue(event.workspace_id)) {
        const outputRecord = toSlowQueue(entry, event);
        taken.push(outputRecord);
        context.count?.(receivedNote(entry, event));
        chars += recordChars(outputRecord);
        diverted += 1;
      } else {
        const candidate = candidateOf(dependencies, entry, event, entry.position);
        costs.note(event.workspace_id);
        share.charge(event.workspace_id, recordsBehindMs(candidate.outputRecords.length));
        taken.push(candidate);
        chars += charsOf(candidate.outputRecords);
      }
      if (isFull(chars, index + 1, endBatch)) break;
    }
    costs.end();
    const { outputRecords, results } = await withoutRepeats(dependencies, taken);
    for (const result of results) context.count?.(resultNote(result, 'received+'));
    for (const bytes of received) context.count?.(bytes);
    if (diverted > 0) metrics.count('tributary_events_diverted_total', { stage: 'validate' }, diverted);
    return outputRecords;
  };
}

interface SlowDependencies extends ValidateDependencies {
  /** Dedupe claims of re-evaluated events. */
  readonly reevaluations: Pick<Deduplicator, 'claim'>;
}

/**
 * The stage `validate.slow`: as `validate`, for the events that `validate` diverted, scheduled fairly by workspace, and for
 * rejected events that a replay evaluates again.
 */
export function validateSlow(dependencies: SlowDependencies, scheduler: ThreadTurns): BatchStage['process'] {
  const { catalog, reevaluations } = dependencies;
  return async (batch, context): Promise<readonly OutputRecord[]> => {
    const { signal, endBatch } = context;
    await awaitCatalog(catalog, batch.entries);
    const taken: Candidate[] = [];
    const bytes = new BytesTally();
    let chars = 0;
    for (const [index, entry] of batch.entries.entries()) {
      const event = eventOf(entry);
      const position = receivedPositionOf(entry);
      const candidate = await scheduler.run(
        event.workspace_id,
        () => candidateOf(dependencies, entry, event, position),
        (result) => downstreamMs(result.outputRecords),
      );
      if (signal.aborted) throw new Unavailable('the partition was lost');
      taken.push(candidate);
      bytes.done(batch.topic, entry);
      chars += charsOf(candidate.outputRecords);
      if (isFull(chars, index + 1, endBatch)) break;
    }
    for (const one of bytes) context.count?.(one);
    const kept = await withoutReevaluated(reevaluations, taken);
    const { outputRecords, results } = await withoutRepeats(dependencies, kept);
    // A re-evaluated event that was accepted meanwhile is not counted again.
    for (const result of results)
      if (!isReevaluated(result.candidate.entry)) context.count?.(resultNote(result));
      else if (result.outcome !== 'duplicate') context.count?.(resultNote(result, 'reevaluated+'));
    return outputRecords;
  };
}

/**
 * Drops re-evaluated events that are still rejected, as they are recorded already, and those that another replay claimed
 * first or that were accepted since. The dedupe claim belongs to the position of the entry in the slow queue: a crash
 * repeats that entry, another replay makes another one. The message id is claimed afterwards, by the same position.
 */
async function withoutReevaluated(
  reevaluations: Pick<Deduplicator, 'claim'>,
  taken: readonly Candidate[],
): Promise<readonly Candidate[]> {
  const again = taken.filter((one) => isReevaluated(one.entry) && !isRejected(one));
  const first = again.length === 0 ? [] : await reevaluations.claim(again.map(dedupeClaimOf));
  const kept = new Set(again.filter((_, at) => first[at]));
  return taken.filter((one) => !isReevaluated(one.entry) || kept.has(one));
}

function isReevaluated({ headers }: LogEntry): boolean {
  return headers[HEADER.reevaluatedBy] !== undefined;
}

function isRejected({ verdict }: Candidate): boolean {
  return verdict?.outcome === 'rejected';
}

function candidateOf(
  dependencies: ValidateDependencies,
  entry: LogEntry,
  event: CanonicalEvent,
  position: Position,
): Candidate {
  const found = evaluateAt(dependencies, event, catalogPositionOf(entry));
  const hasViolations = found !== undefined && found.verdict.violations.length > 0;
  const evaluation: Evaluated = {
    entry,
    event,
    position,
    counted: countedEventOf(entry, event),
    contract: found?.contract,
    verdict: found?.verdict,
    over: hasViolations ? dependencies.budgets?.verdictOf(event.workspace_id) : undefined,
  };
  return { ...evaluation, outputRecords: evaluationRecords(evaluation) };
}

/** The outcome of an event. */
interface Result {
  readonly candidate: Candidate;
  readonly outcome: 'duplicate' | ContractVerdict['outcome'];
}

/** Claims the message ids of the candidates, and drops repeats. Keeps the order, also of records that are no candidates. */
async function withoutRepeats(
  { deduplicator, metrics }: Pick<ValidateDependencies, 'deduplicator' | 'metrics'>,
  taken: readonly (Candidate | OutputRecord)[],
): Promise<{ readonly outputRecords: readonly OutputRecord[]; readonly results: readonly Result[] }> {
  const dedupeClaims: DedupeClaim[] = [];
  for (const one of taken) if ('outputRecords' in one) dedupeClaims.push(dedupeClaimOf(one));
  const first = await deduplicator.claim(dedupeClaims);
  const outcomes = new Map<string, number>();
  const outputRecords: OutputRecord[] = [];
  const results: Result[] = [];
  let at = 0;
  for (const one of taken) {
    if (!('outputRecords' in one)) {
      outputRecords.push(one);
      continue;
    }
    const isFirst = first[at++] === true;
    const outcome = isFirst ? (one.verdict?.outcome ?? 'accepted') : 'duplicate';
    results.push({ candidate: one, outcome });
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    if (isFirst) outputRecords.push(...one.outputRecords);
  }
  count(metrics, outcomes);
  return { outputRecords, results };
}

/** An event that `validate.slow` decides about. */
function receivedNote(entry: LogEntry, event: CanonicalEvent): StageNote {
  return beforeRules(countedEventOf(entry, event), 'received');
}

function countedEventOf({ position, headers, timestamp }: LogEntry, event: CanonicalEvent): CountedEvent {
  const record = position.topic === TOPIC.receivedSlow ? 'later' : 'received';
  const receivedAt = receptionTime(Date.parse(event.received_at), timestamp, record);
  return countedEvent(event, headers[HEADER.keyId], receivedAt);
}

function resultNote({ candidate, outcome }: Result, also = ''): StageNote {
  return beforeRules(candidate.counted, `${also}${measuresOf(outcome, candidate)}`);
}

function measuresOf(outcome: Result['outcome'], { contract, verdict }: Evaluated): string {
  switch (outcome) {
    case 'duplicate':
    case 'accepted':
      return outcome;
    case 'rejected': {
      const blocked = verdict?.violations.find(({ action }) => action === 'blocked');
      return measureText('rejected', `${contract?.id ?? ''}/${blocked?.kind ?? ''}`);
    }
    default:
      return `accepted+${measureText('warned', outcome)}`;
  }
}

function beforeRules(event: CountedEvent, measures: string): StageNote {
  return { event, rule: '', destination: '', measures };
}

function dedupeClaimOf(candidate: Candidate): DedupeClaim {
  const { event, position } = candidate;
  const dedupeClaim = {
    workspaceId: event.workspace_id,
    environment: event.environment,
    messageId: event.message_id,
    position,
  };
  return isRejected(candidate) ? { ...dedupeClaim, rejected: true } : dedupeClaim;
}

function charsOf(outputRecords: readonly OutputRecord[]): number {
  let chars = 0;
  for (const outputRecord of outputRecords) chars += recordChars(outputRecord);
  return chars;
}

/** Whether a batch has enough output records: then it ends after so many entries, and the others are in the next batch. */
function isFull(chars: number, entries: number, endBatch: StageContext['endBatch']): boolean {
  if (chars < BATCH_CHARS || endBatch === undefined) return false;
  endBatch(entries);
  return true;
}

function count(metrics: Metrics, outcomes: ReadonlyMap<string, number>): void {
  for (const [outcome, number] of outcomes)
    metrics.count('tributary_events_validated_total', { outcome }, number);
}

/** The received event unchanged, with its position, and with headers by which the event trace finds it. */
function toSlowQueue(entry: LogEntry, event: CanonicalEvent): OutputRecord {
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
