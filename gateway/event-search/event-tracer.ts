import {
  attemptsIn,
  type CanonicalEvent,
  type ContractStep,
  type DeadLetterRecord,
  type Deduplicator,
  type Delivery,
  type DeliveryTrace,
  type EntryLocation,
  type Environment,
  type EventLog,
  type EventTrace,
  eventKey,
  eventName,
  HEADER,
  type History,
  type LogEntry,
  type NewEntry,
  organizationOf,
  type Position,
  parsePosition,
  partitionsOfKey,
  type RuleTrace,
  readDeliveryReference,
  receivedTopic,
  type ScanCoverage,
  TOPIC,
  timeOfId,
  Unavailable,
} from '@tributary/core';
import { type ContractDependencies, evaluateContract } from '../ingestion/contract-check.ts';
import { FairSemaphore } from '../limits/turns.ts';
import { traceLoads } from './load-traces.ts';
import { CLOCK_SKEW_MS, isEntryOf, LogScan, type ScanEnd, type ScanRange } from './log-scan.ts';
import { traceRules } from './rule-traces.ts';

/** How long one trace reads, ms. */
const BUDGET_MS = 1_500;
/** Traces of one process at a time, as the log serves producers too; and those that wait, in all and of one workspace. */
const CONCURRENCY = { concurrency: 2, maxWaiting: 20, maxWaitingPerOwner: 4, retryAfterSeconds: 2 };

/** The sources of a trace, which are only read. The event path writes nothing for traces. */
interface TraceSources extends ContractDependencies {
  readonly log: EventLog;
  readonly deduplicator: Pick<Deduplicator, 'winner'>;
  /** The dedupe claims of events that a replay re-evaluated. */
  readonly reevaluations: Pick<Deduplicator, 'winner'>;
  readonly history: Pick<History, 'get' | 'list'>;
  /** Received topics declared by the operator, beside one per environment. */
  readonly dedicatedTopics: readonly string[];
}

/** The path of an event through the pipeline, without how much of the log was read for it. */
type Path = Omit<EventTrace, 'scan'>;

/** The path of an event whose contract was evaluated. */
type ValidatedPath = Path & Required<Pick<Path, 'contract'>>;

interface TraceResult {
  /** Undefined when the event was not found. */
  readonly trace: EventTrace | undefined;
  readonly coverage: ScanCoverage;
}

/**
 * Traces an event through the pipeline: each part of its path is read where it happened, from the log, the deduplicator,
 * the catalog and history.
 */
export class EventTracer {
  readonly #sources: TraceSources;
  readonly #semaphore = new FairSemaphore(CONCURRENCY);

  constructor(sources: TraceSources) {
    this.#sources = sources;
  }

  /**
   * Errors:
   *
   * - 429 while too many traces wait, and when the client disconnects before its trace starts;
   * - `Unavailable` when the log does not respond, or when this process's catalog is behind the event's.
   */
  trace(query: TraceQuery, disconnected: AbortSignal): Promise<TraceResult> {
    return this.#scanning(query, disconnected, async (scan) => {
      const received = await findReceived(scan, this.#sources, query);
      const path = received && (await pathOf(scan, this.#sources, received));
      const coverage = scan.coverage();
      return { trace: path && { ...path, scan: coverage }, coverage };
    });
  }

  /** The event as it was received; undefined when it was not found. Errors as of `trace`. */
  find(query: TraceQuery, disconnected: AbortSignal): Promise<CanonicalEvent | undefined> {
    return this.#scanning(query, disconnected, async (scan) => {
      const received = await findReceived(scan, this.#sources, query);
      return received?.event;
    });
  }

  #scanning<T>(
    { workspaceId }: TraceQuery,
    disconnected: AbortSignal,
    work: (scan: LogScan) => Promise<T>,
  ): Promise<T> {
    const { log, catalog } = this.#sources;
    return this.#semaphore.run(organizationOf(catalog.state, workspaceId), disconnected, () =>
      work(new LogScan(log, BUDGET_MS, () => performance.now())),
    );
  }
}

async function pathOf(scan: LogScan, sources: TraceSources, received: ReceivedEvent): Promise<Path> {
  const { entry, event } = received;
  const keyId = entry.headers[HEADER.keyId];
  const known = {
    event,
    received: entryLocationOf(entry),
    ...(keyId === undefined ? {} : { key_id: keyId }),
    rules: [],
    loads: [],
  };
  if (!(await isValidated(scan, entry))) return { ...known, stage: 'validate' };
  if (await isInSlowValidation(scan, received)) return { ...known, stage: 'validate.slow' };
  const contract = await contractStep(sources, received);
  if (contract.outcome === 'rejected') {
    const reevaluated = await findReevaluated(scan, sources, received);
    return reevaluated === undefined
      ? { ...known, contract }
      : pathOfReevaluated(scan, sources, reevaluated, { ...known, contract });
  }
  return pathOfAccepted(scan, sources, received, { ...known, contract });
}

/** The path of a rejected event that a replay had re-evaluated: it continues from the re-evaluation. */
async function pathOfReevaluated(
  scan: LogScan,
  sources: TraceSources,
  reevaluation: ReceivedEvent,
  known: ValidatedPath,
): Promise<Path> {
  const { entry, event } = reevaluation;
  const { violations: _none, ...verdict } = await contractStep(sources, reevaluation);
  const accepted = await findAccepted(scan, reevaluation);
  // A corrected event of the same id was accepted instead.
  if (accepted !== undefined && accepted.headers[HEADER.reevaluatedBy] === undefined) return known;
  const reevaluated = {
    ...verdict,
    replay_id: entry.headers[HEADER.reevaluatedBy] ?? '',
    at: entry.timestamp,
  };
  const contract = { ...known.contract, reevaluated };
  return pathOfAccepted(scan, sources, { entry, event }, { ...known, contract }, accepted);
}

async function pathOfAccepted(
  scan: LogScan,
  sources: TraceSources,
  received: ReceivedEvent,
  known: ValidatedPath,
  found?: LogEntry,
): Promise<Path> {
  const accepted = found ?? (await findAccepted(scan, received));
  if (accepted === undefined) {
    const { records } = await findDeadLetters(scan, received);
    return { ...known, ...failedStage(records[0]) };
  }
  const path = { ...known, accepted: entryLocationOf(accepted) };
  const { topic, partition, offset } = accepted.position;
  const routed = await scan.consumed('route', topic, partition);
  if (routed <= offset) return { ...path, stage: 'route' };
  const state = sources.catalog.state;
  const asRouted = { entry: accepted, event: JSON.parse(accepted.value) as CanonicalEvent };
  const rules = await traceRules(scan, { ...sources, state }, asRouted);
  const loads = await traceLoads(scan, { ...sources, state }, asRouted, rules);
  return { ...path, loads, ...(await withDeadLetters(scan, received, rules)) };
}

function entryLocationOf({ position, timestamp }: LogEntry): EntryLocation {
  return { position, at: timestamp };
}

/** A message whose id a gateway assigned is appended to the log within this time, ms. */
const APPENDED_WITHIN_MS = 60_000;
/** The search covers this much before and after the time that a caller names, ms. */
const AROUND_MS = 120_000;

/** Identifies the event to trace. */
interface TraceQuery {
  readonly workspaceId: string;
  readonly messageId: string;
  readonly environments: readonly Environment[];
  /** Approximate time at which the event was received, epoch ms. */
  readonly around?: number;
  /** Its `user_id`, else `anonymous_id`: determines the partition. */
  readonly subject?: string;
}

interface ReceivedEvent {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
}

/**
 * Finds the received entry of a message id; of a message that was sent repeatedly, the entry that won deduplication.
 * Undefined when it is not found. The searches, cheapest first:
 *
 * 1. the position that the deduplicator remembers;
 * 2. entries that validate has not consumed yet;
 * 3. entries from around the time that the id contains or the caller names.
 */
async function findReceived(
  scan: LogScan,
  { deduplicator, dedicatedTopics }: TraceSources,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  const { log } = scan;
  const { workspaceId, messageId, around } = query;
  return (await dedupeWinner()) ?? (await unvalidated()) ?? (await nearItsTime());

  async function dedupeWinner(): Promise<ReceivedEvent | undefined> {
    for (const environment of query.environments) {
      const position = await scan.ask('deduplicator', () =>
        deduplicator.winner({ workspaceId, environment, messageId }, [
          ...topicsOf([environment]),
          TOPIC.receivedSlow,
        ]),
      );
      if (position === undefined || position === 'unanswered') continue;
      const found = await readAt(scan, position, query);
      if (found !== undefined) return (await firstReceived(found)) ?? found;
    }
    return undefined;
  }

  /** A re-evaluated event won deduplication by its entry in validate's slow queue, which names the received entry. */
  async function firstReceived({ entry }: ReceivedEvent): Promise<ReceivedEvent | undefined> {
    const { position, headers } = entry;
    if (position.topic !== TOPIC.receivedSlow) return undefined;
    const received = parsePosition(headers[HEADER.receivedPosition] ?? '');
    return received === undefined ? undefined : readAt(scan, received, query);
  }

  async function unvalidated(): Promise<ReceivedEvent | undefined> {
    return earliestIn(async (topic, partition) => {
      const consumed = await log.positionOf('validate', topic, partition);
      return { topic, partition, from: consumed ?? (await log.first(topic, partition)) };
    });
  }

  async function nearItsTime(): Promise<ReceivedEvent | undefined> {
    const assignedAt = timeOfId(messageId);
    const times: (readonly [since: number, until: number])[] = [];
    if (around !== undefined) times.push([around - AROUND_MS, around + AROUND_MS]);
    if (assignedAt !== undefined) times.push([assignedAt - CLOCK_SKEW_MS, assignedAt + APPENDED_WITHIN_MS]);
    for (const [since, until] of times) {
      const found = await earliestIn(async (topic, partition) => ({
        topic,
        partition,
        from: await log.offsetAt(topic, partition, since),
        to: await log.offsetAt(topic, partition, until),
      }));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The entry of a repeated message that was appended first. */
  async function earliestIn(
    rangeOf: (topic: string, partition: number) => Promise<ScanRange>,
  ): Promise<ReceivedEvent | undefined> {
    const found: ReceivedEvent[] = [];
    const partitions = topicsOf(query.environments).flatMap((topic) =>
      partitionsOf(scan, topic, query).map((partition) => ({ topic, partition })),
    );
    await Promise.all(
      partitions.map(async ({ topic, partition }) => {
        await scan.visit(await rangeOf(topic, partition), (entry) => {
          const here = eventIn(entry, query);
          if (here !== undefined) found.push(here);
          return here === undefined ? undefined : 'enough';
        });
      }),
    );
    return found.sort((a, b) => a.entry.timestamp - b.entry.timestamp)[0];
  }

  /** Dedicated topics are always included: they may hold events of either environment. */
  function topicsOf(environments: readonly Environment[]): readonly string[] {
    return [...environments.map(receivedTopic), ...dedicatedTopics].filter((topic) => log.topics.has(topic));
  }
}

/**
 * The entry by which a replay had a rejected event re-evaluated; of several, the one that won deduplication. Undefined
 * when there is none, or when another event of the same id was accepted instead.
 */
async function findReevaluated(
  scan: LogScan,
  { reevaluations }: Pick<TraceSources, 'reevaluations'>,
  { event }: ReceivedEvent,
): Promise<ReceivedEvent | undefined> {
  const { workspace_id: workspaceId, environment, message_id: messageId } = event;
  const message = { workspaceId, environment, messageId };
  const position = await scan.ask('deduplicator', () => reevaluations.winner(message, [TOPIC.receivedSlow]));
  if (position === undefined || position === 'unanswered' || position.topic !== TOPIC.receivedSlow)
    return undefined;
  return readAt(scan, position, { workspaceId, messageId, environments: [environment] });
}

/** Undefined when the entry is past the log's retention. */
async function readAt(
  scan: LogScan,
  { topic, partition, offset, index }: Position,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  let found: ReceivedEvent | undefined;
  await scan.visit({ topic, partition, from: offset, to: offset + 1 }, (entry) => {
    if (entry.position.offset !== offset || entry.position.index !== index) return undefined;
    found = eventIn(entry, query);
    return 'enough';
  });
  return found;
}

function partitionsOf(scan: LogScan, topic: string, { subject, workspaceId }: TraceQuery): readonly number[] {
  const { partitions, earlier = [] } = scan.log.topics.get(topic) ?? { partitions: 0 };
  if (subject !== undefined)
    return partitionsOfKey(eventKey({ workspace_id: workspaceId, user_id: subject }), {
      partitions,
      earlier,
    });
  return Array.from({ length: partitions }, (_, partition) => partition);
}

/** The event of an entry if it matches the query. Compares text first, so that most entries are never parsed. */
function eventIn(
  entry: LogEntry,
  { workspaceId, messageId, environments }: TraceQuery,
): ReceivedEvent | undefined {
  if (!entry.value.includes(JSON.stringify(messageId))) return undefined;
  const event = JSON.parse(entry.value) as CanonicalEvent;
  const { message_id, workspace_id, environment } = event;
  const matches =
    message_id === messageId && workspace_id === workspaceId && environments.includes(environment);
  return matches ? { entry, event } : undefined;
}

/** How long to wait for this process's catalog to reach the position that the event carries, ms. */
const CATALOG_WAIT_MS = 250;

/** True once validate has consumed the received entry. */
async function isValidated(scan: LogScan, { position }: LogEntry): Promise<boolean> {
  const { topic, partition, offset } = position;
  return (await scan.consumed('validate', topic, partition)) > offset;
}

/** True while the event waits in validate's slow queue. */
export async function isInSlowValidation(scan: LogScan, { entry, event }: ReceivedEvent): Promise<boolean> {
  const topic = TOPIC.receivedSlow;
  for (const partition of partitionsOfKey(eventKey(event), scan.specOf(topic))) {
    const consumed = await scan.consumed('validate.slow', topic, partition);
    const from = await scan.after(entry, topic, partition);
    const end = await scan.visit({ topic, partition, from: Math.max(from, consumed) }, (slow) =>
      // A re-evaluation waits in this queue too; until it is done the event counts as rejected.
      isEntryOf(slow, event) && slow.headers[HEADER.reevaluatedBy] === undefined ? 'enough' : undefined,
    );
    if (end === 'enough') return true;
  }
  return false;
}

/**
 * The verdict of the contract. It is evaluated again: an event is evaluated as of the catalog position that it carries,
 * so every process arrives at the verdict that validate came to, at any time.
 */
async function contractStep(
  sources: ContractDependencies,
  { entry, event }: ReceivedEvent,
): Promise<ContractStep> {
  const { catalog } = sources;
  const position = Number(entry.headers[HEADER.catalogPosition]);
  if (Number.isNaN(position)) throw new Unavailable('a received event without a catalog position');
  if (catalog.position < position) await catalog.waitFor(position, CATALOG_WAIT_MS);
  const contract = catalog.state.contractAt(event.workspace_id, event.type, eventName(event), position);
  if (contract === undefined) return { outcome: 'accepted', violations: [] };
  const { outcome, violations } = await evaluateContract(contract, event, sources);
  return {
    outcome,
    contract_id: contract.id,
    contract_version: contract.version,
    violations: violations.map(({ kind, path, message, action }) => ({ kind, path, message, action })),
  };
}

/** The event's entry on `events.accepted`; undefined when it was not found. */
async function findAccepted(scan: LogScan, { entry, event }: ReceivedEvent): Promise<LogEntry | undefined> {
  const topic = TOPIC.accepted;
  let found: LogEntry | undefined;
  for (const partition of partitionsOfKey(eventKey(event), scan.specOf(topic))) {
    const from = await scan.after(entry, topic, partition);
    await scan.visit({ topic, partition, from }, (accepted) => {
      if (!isEntryOf(accepted, event)) return undefined;
      found = accepted;
      return 'enough';
    });
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Entries of one event that stages moved to the dead-letter topic. */
interface DeadLetters {
  readonly records: readonly DeadLetterRecord[];
  /** True when the topic was read to its end. */
  readonly complete: boolean;
}

const NO_IDS: ReadonlySet<string> = new Set();

/** Finds the dead-letter records of the event and of its deliveries, which may be keyed by these ids. */
async function findDeadLetters(
  scan: LogScan,
  { entry, event }: ReceivedEvent,
  deliveryIds: ReadonlySet<string> = NO_IDS,
): Promise<DeadLetters> {
  const topic = TOPIC.poison;
  const partitions = scan.log.topics.get(topic)?.partitions ?? 0;
  const records: DeadLetterRecord[] = [];
  // The entry is a JSON text within a JSON text.
  const messageId = JSON.stringify(JSON.stringify(event.message_id)).slice(1, -1);
  const scanPartition = async (partition: number): Promise<ScanEnd> => {
    const from = await scan.after(entry, topic, partition);
    return scan.visit({ topic, partition, from }, ({ key, value }) => {
      const isNamed = value.includes(messageId) && value.includes(event.workspace_id);
      if (isNamed || deliveryIds.has(key)) records.push(JSON.parse(value) as DeadLetterRecord);
      return undefined;
    });
  };
  const ends = await Promise.all(
    Array.from({ length: partitions }, (_, partition) => scanPartition(partition)),
  );
  return { records, complete: !ends.includes('timed out') };
}

/**
 * The rules, corrected by dead letters: the position of a stage passes entries that it dead-lettered too, so a delivery
 * counts as delivered or retrying only when no stage dead-lettered it.
 */
export async function withDeadLetters(
  scan: LogScan,
  received: ReceivedEvent,
  rules: readonly RuleTrace[],
): Promise<Pick<EventTrace, 'rules' | 'poisoned'>> {
  const isUndecided = rules.some((rule) => rule.mismatch === undefined && rule.transformation === 'unknown');
  const isConcluded = rules.some(({ deliveries }) =>
    deliveries.some(({ first_try, status }) => first_try || status === 'retrying'),
  );
  if (!isUndecided && !isConcluded) return { rules };
  const ids = new Set(rules.flatMap(({ deliveries }) => deliveries.map(({ id }) => id)));
  const deadLetters = await findDeadLetters(scan, received, ids);
  const checked = rules.map((rule) => ({
    ...rule,
    deliveries: rule.deliveries.map((delivery) => unlessDeadLettered(delivery, deadLetters)),
  }));
  const unknown = checked.flatMap(({ deliveries }) =>
    deliveries.filter(({ status }) => status === 'unknown'),
  );
  const ofDelivery = deadLetters.records.find(({ entry }) =>
    unknown.some(({ id }) => entry.key === id || entry.value.includes(id)),
  );
  const record = ofDelivery ?? (isUndecided ? deadLetters.records[0] : undefined);
  return { rules: checked, ...failedStage(record) };
}

function unlessDeadLettered(delivery: DeliveryTrace, { records, complete }: DeadLetters): DeliveryTrace {
  if (delivery.status === 'retrying') return unlessRetryDeadLettered(delivery, records);
  if (!delivery.first_try) return delivery;
  const isDelivered =
    complete &&
    !records.some(({ entry: { key, value } }) => key === delivery.id || value.includes(delivery.id));
  return isDelivered ? delivery : { ...delivery, status: 'unknown', first_try: false };
}

/**
 * History shows a delivery as retrying although the entry of its next attempt was dead-lettered. A delivery that was
 * redriven and attempted since has a later attempt than that entry.
 */
function unlessRetryDeadLettered(
  delivery: DeliveryTrace,
  records: readonly DeadLetterRecord[],
): DeliveryTrace {
  const lastAttemptAt = delivery.attempts.at(-1)?.at ?? '';
  const isDeadLettered = records.some(({ entry }) => {
    const logged = deliveryIn(entry);
    return logged?.id === delivery.id && (logged.attempts.at(-1)?.at ?? '') >= lastAttemptAt;
  });
  if (!isDeadLettered) return delivery;
  const { next_attempt_at: _never, ...rest } = delivery;
  return { ...rest, status: 'unknown' };
}

/** Undefined for an entry of another topic, and for one that is not valid JSON. */
function deliveryIn({
  key,
  value,
}: Pick<NewEntry, 'key' | 'value'>): Pick<Delivery, 'id' | 'attempts'> | undefined {
  try {
    const reference = readDeliveryReference(value);
    if (reference !== undefined) return { id: key, attempts: attemptsIn(reference.attempts) };
    const { id, attempts } = JSON.parse(value) as Partial<Delivery>;
    return id === undefined || !Array.isArray(attempts) ? undefined : { id, attempts };
  } catch {
    return undefined;
  }
}

/** The field by which a trace states that a stage dead-lettered the event. */
function failedStage(record: DeadLetterRecord | undefined): Pick<EventTrace, 'poisoned'> {
  return record === undefined ? {} : { poisoned: { stage: record.stage, error: record.error } };
}
