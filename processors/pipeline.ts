import {
  type BatchStage,
  type Clock,
  type ConfirmationClaim,
  type ConnectorCatalog,
  type ConnectorDestination,
  type ContractEvaluator,
  type Counters,
  countsFormIn,
  DEFAULT_EXPIRY_MS,
  DEFAULT_PROFILE_BOUNDS,
  DEFAULT_RETRY_STEPS,
  type Deduplicator,
  type Destination,
  type EventLog,
  type FlowStage,
  type HealthBoard,
  type History,
  type LiveTail,
  type Mailer,
  type NullHandling,
  type ProfileStore,
  parseRetrySchedule,
  REPLAY_TICK_MS,
  type ReadDiskLevel,
  retryDelays,
  retryTopic,
  type Sandbox,
  type ScopeBytes,
  type Source,
  type Stage,
  type StorageBudgets,
  ThreadTurns,
  TOPIC,
} from '@tributary/core';
import { audit } from './audit/audit.ts';
import { DEFAULT_BREAKER } from './deliver/admission.ts';
import { DeliveryReads } from './deliver/delivery-task.ts';
import { DestinationRegistry } from './deliver/destination-registry.ts';
import { DEFAULT_ALERT_LIMITS } from './deliver/health.ts';
import { type DeliverDependencies, deliver, deliverSlow, retrySources } from './deliver/stage.ts';
import { FairShare, type RunPiece, THREAD_TIME, type ThreadTime, yielding } from './fairness/fair-share.ts';
import { DEFAULT_WINDOW, PartitionWindows } from './fairness/partition-windows.ts';
import { TransformationTurns } from './fairness/slowness.ts';
import { TimeoutWheel, waitClock } from './fairness/waits.ts';
import { countsSource, funnel } from './funnel/funnel.ts';
import { history } from './history/history.ts';
import { live } from './live/live.ts';
import { Loads, load } from './load/loads.ts';
import { mail, mailRetries } from './mail/mail.ts';
import { notice } from './notice/notice.ts';
import { profile } from './profile/profile.ts';
import { RecordReader } from './record-reader.ts';
import { dedupeRedrives } from './redrive/redrive-dedupe.ts';
import { replay } from './replay/replay.ts';
import { route, routeSlow } from './route/route.ts';
import type { RunMetrics } from './route/run-metrics.ts';
import { DEFAULT_FAILURE_LIMITS, FailureWatch, Transformer } from './route/transformer.ts';
import { type StageName, type StageParts, topicsOf } from './stages.ts';
import { traced } from './tracing.ts';
import { validate, validateSlow } from './validate/validate.ts';

/** The ports and settings of the stages. The caller closes them after the stages have stopped. */
export interface PipelineDependencies
  extends Pick<StageParts, 'catalog' | 'clock' | 'elapsed' | 'logger' | 'metrics' | 'tracing'> {
  /** For look-ups; the stage runner reads the entries of stages. */
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt' | 'topics'>;
  readonly deduplicator: Deduplicator;
  /** For re-evaluated events, with the retention of rejected events as its window. */
  readonly reevaluations: Deduplicator;
  readonly contracts: ContractEvaluator;
  readonly counters: Counters;
  /** Counts the runs of transformations. */
  readonly runMetrics: Pick<RunMetrics, 'note'>;
  readonly history: History;
  readonly liveTail: LiveTail;
  readonly profiles: ProfileStore;
  /** Absent without a configured mail server: mails wait in their topic. */
  readonly mailer?: Mailer;
  /** The link that confirms an address for notices. Absent without a public URL: these mails wait. */
  readonly confirmationLink?: (claim: ConfirmationClaim) => string;
  readonly sandbox: Sandbox;
  /** For the slow queue, so that slow programs do not delay quick ones. */
  readonly slowSandbox: Sandbox;
  readonly connectors: ConnectorCatalog;
  /** Health reports of destinations. Absent: metrics only, and limits of destinations apply to each process. */
  readonly healthBoard?: HealthBoard;
  /** The loaders of warehouses. Absent: requests to load are dropped. */
  readonly loads?: Pick<Loads, 'request'>;
  /** The destination with unsealed secrets. Throws where no key unseals them. */
  unseal(destination: Destination): ConnectorDestination;
  /** Default: from the operating system. */
  readonly threadTime?: ThreadTime;
  /** For waits for destinations. Default: `waitClock` of this thread. */
  readonly waited?: Clock;
  /** The level of the fullest disk that events are kept on, as measured last. Default: enough. */
  readonly diskLevel?: ReadDiskLevel;
  /** Absent: no workspace has a budget of bytes. */
  readonly budgets?: Pick<StorageBudgets, 'verdictOf' | 'add'>;
  /** All received topics: the standard ones and those that the operator declared. */
  readonly receivedTopics: readonly string[];
  readonly options?: Partial<PipelineOptions>;
}

/** Every size and time of the stages. Bytes, ms. */
export type PipelineOptions = Readonly<typeof DEFAULT_PIPELINE>;

export const DEFAULT_PIPELINE = {
  /** Entries in a batch of a stage that names no other number. */
  batchEntries: 500,
  /** Subjects of a partition whose profiles are written concurrently. */
  profileWriters: 64,
  /** Whether a trait of `null` removes the attribute. */
  profileNulls: 'unset' as NullHandling,
  /** Bounds on the size of a profile. */
  profileBounds: DEFAULT_PROFILE_BOUNDS,
  /** Least time between two mails of an organization to one address; notices in between become one mail. */
  mailEveryMs: 60_000,
  /** Mails of an organization in an hour, in each process; what is beyond waits for the next mail. */
  mailsPerHour: 60,
  /** Retention of the topics: mails are dead-lettered before it ends. */
  retentionMs: 7 * 24 * 3_600_000,
  /** How long a `message_id` is remembered at least, ms. */
  dedupeWindowMs: 24 * 3_600_000,
  /** Window of a partition of a flow stage. Its records take about five times as much memory. */
  windowBytes: 1024 * 1024,
  /** How long a transformation may take before its event goes to the slow queue, ms: it delays deliveries. */
  slowTransformationMs: 200,
  /** Events and bytes of one sandbox call. */
  transformEvents: 200,
  transformBytes: 256 * 1024,
  failures: DEFAULT_FAILURE_LIMITS,
  /** Default limits of a destination: concurrent requests, and requests that begin in a second. */
  maxRequests: 16,
  requestsPerSecond: undefined as number | undefined,
  breaker: DEFAULT_BREAKER,
  /** When the health of a destination counts as changed. */
  condition: DEFAULT_ALERT_LIMITS,
  /** Delays of the retry topics, shortest first; the topics must be declared with the same. */
  retrySteps: DEFAULT_RETRY_STEPS as readonly string[],
  expiryMs: DEFAULT_EXPIRY_MS,
};

/** All stages with the topics that they read and write. Each is a consumer group and may run in any process. */
export function createPipeline(dependencies: PipelineDependencies): readonly Stage[] {
  const options = { ...DEFAULT_PIPELINE, ...dependencies.options };
  const schedule = parseRetrySchedule(options.retrySteps);
  const parts = { ...dependencies, ...options, schedule };
  const { batch, flow } = stageMakers(parts);
  const { catalog, elapsed, budgets, tracing, windowBytes } = parts;
  const { waited = waitClock(), threadTime = THREAD_TIME } = parts;

  // Stages of one concern share its state within the process.
  const records = new RecordReader(parts.log);
  const reads = new DeliveryReads(records);
  const validateShare = new FairShare(elapsed, threadTime);
  const routeShare = new FairShare(elapsed, threadTime);
  // One for all slow queues of the process, as they share a thread with each other and with the quick stages.
  const isBusy = () => validateShare.isBusy || routeShare.isBusy;
  const scheduler = new ThreadTurns({ elapsed, isBusy });
  const windows = () => new PartitionWindows(elapsed, { windowBytes });
  const turns = new TransformationTurns(
    elapsed,
    windowBytes * DEFAULT_WINDOW.share,
    parts.slowTransformationMs,
  );

  const failures = new FailureWatch({ ...parts, limits: parts.failures });
  const routing = (sandbox: Sandbox, runPiece: RunPiece) => {
    const transformer = new Transformer({ ...parts, sandbox, failures, runPiece });
    return { ...parts, transformer, records, runPiece };
  };
  const quickRoute = routing(parts.sandbox, yielding);
  const slowRoute = routing(parts.slowSandbox, scheduler.run.bind(scheduler));

  // Limits and circuit breakers belong to a destination, not to a stage.
  const queues = { ...parts, waited, reads, timeouts: new TimeoutWheel(waited) };
  const delivery: DeliverDependencies = { ...queues, registry: new DestinationRegistry(queues) };
  const quickDeliver = deliver(delivery, windows());
  const retryDeliver = deliver(delivery, windows());
  const redrives = { ...parts, reads };

  const { receivedSlow, accepted, rejected, violations, eventsSlow, deliveries, deliveriesSlow, outcomes } =
    TOPIC;
  const { deliveriesDead: dead, funnelCounts, profilesSlow } = TOPIC;
  const ends = [...retryDelays(schedule).map(({ label }) => retryTopic(label)), dead, outcomes, funnelCounts];
  const maxEntries = HISTORY_ENTRIES;
  const mailDelay = mailRetries(parts, parts.mailer !== undefined);
  const stages: readonly Stage[] = [
    batch(
      'validate',
      [receivedSlow, accepted, rejected, violations, funnelCounts],
      validate({ ...parts, threadTime }, validateShare),
    ),
    {
      ...batch(
        'validate.slow',
        [accepted, rejected, violations, funnelCounts],
        validateSlow(parts, scheduler),
      ),
      maxEntries: SLOW_ENTRIES,
    },
    batch('funnel', [], funnel(parts), [countsSource]),
    batch('live', [], live(parts)),
    batch('profile', [profilesSlow, TOPIC.profileOperations, funnelCounts], profile(parts)),
    // It begins a topic at its first record: what it repeats changes nothing.
    { ...batch('history', [funnelCounts], history({ ...parts, records })), maxEntries, startsAtFirst: true },
    { ...batch('audit', [], audit(parts)), maxEntries, neverQuarantines: true },
    {
      ...batch('mail', [TOPIC.mail, TOPIC.mailRetry, TOPIC.poison], mail(parts), [mailDelay]),
      maxEntries: MAIL_ENTRIES,
      repeats: 'visible',
    },
    flow('route', [deliveries, dead, eventsSlow, funnelCounts], route(quickRoute, turns, routeShare)),
    {
      ...flow(
        'route.slow',
        [deliveries, dead, outcomes, eventsSlow, funnelCounts],
        dedupeRedrives(redrives, 'route.slow', eventsSlow, routeSlow(slowRoute, scheduler)),
      ),
      commitPauseMs: SLOW_COMMIT_PAUSE_MS,
    },
    flow(
      'replay',
      [TOPIC.replays, TOPIC.replaysWaiting, eventsSlow, receivedSlow],
      replay(parts, scheduler),
      replaySteps,
    ),
    batch('load', [], load(parts.loads)),
    { ...batch('notice', [TOPIC.mail, deliveries], notice(parts)), maxEntries },
    {
      ...quickDeliver,
      ...flow(
        'deliver',
        [deliveriesSlow, ...ends],
        dedupeRedrives(redrives, 'deliver', deliveries, quickDeliver.handle),
      ),
    },
    flow('deliver.slow', ends, deliverSlow(delivery, slowDeliveryWindows(parts))),
    {
      ...retryDeliver,
      ...flow('deliver.retry', [deliveriesSlow, ...ends], retryDeliver.handle, retrySources(schedule)),
    },
  ];
  const countsForm = () => countsFormIn(catalog.state);
  // Received bytes are processed by their commit: the gateway knows them before, and this process by the store.
  const committed = (bytes: Iterable<ScopeBytes>) =>
    budgets?.add(Array.from(bytes, (one) => ({ ...one, received: 0 })));
  const counting = stages.map((stage) => ({ ...stage, countsForm, ...(budgets && { committed }) }));
  return tracing === undefined ? counting : counting.map((stage) => traced(stage, tracing));
}

/**
 * The loaders of warehouses of a process that runs the stage `load`. Their transformations run in the sandbox of the slow
 * queues. `catalogCharacters`: the quota of that name.
 */
export function createLoads(
  dependencies: PipelineDependencies & {
    readonly log: Pick<EventLog, 'append'>;
    readonly catalogCharacters: number;
  },
): Loads {
  const parts = { ...dependencies, ...DEFAULT_PIPELINE, ...dependencies.options };
  const failures = new FailureWatch({ ...parts, limits: parts.failures });
  const transformer = new Transformer({ ...parts, sandbox: parts.slowSandbox, failures, runPiece: yielding });
  return new Loads({ ...parts, transformer });
}

/** Windows of `deliver.slow`: a destination may have half of the window while others come, and is never too slow. */
function slowDeliveryWindows({
  elapsed,
  windowBytes,
}: Pick<PipelineDependencies & PipelineOptions, 'elapsed' | 'windowBytes'>) {
  return new PartitionWindows(elapsed, { windowBytes, share: 1 / 2, evenParts: 1, seenMs: 60_000 });
}

/** A tick after the step before it, and longer where the replay waits for the next hour. */
const replaySteps: readonly Source[] = [
  { topic: TOPIC.replays, dueAt: (appendedAt) => appendedAt + REPLAY_TICK_MS },
  { topic: TOPIC.replaysWaiting, dueAt: (appendedAt) => appendedAt + 60_000 },
];

/**
 * Each event of the slow queue may count something for hundreds of rules: where every one were a commit of its own, their
 * counts, dead letters and commits would take as much of the thread as the quick stages.
 */
const SLOW_COMMIT_PAUSE_MS = 100;

/** Entries in a batch of history, audit and notice; an entry may contain an event and all its attempts, or a fact. */
const HISTORY_ENTRIES = 200;

/** Entries in a batch of `mail`: notices that are read together become one mail for each organization and address. */
const MAIL_ENTRIES = 200;

/** Entries in a batch of `validate.slow`, each of which may take milliseconds of a fraction of a thread. */
const SLOW_ENTRIES = 100;

/** `delayed`: the topics of a stage whose records wait there. */
function stageMakers(parts: PipelineOptions & Pick<PipelineDependencies, 'receivedTopics'>) {
  const { batchEntries: maxEntries, windowBytes } = parts;
  const sources = (name: StageName, delayed: readonly Source[] = []) =>
    topicsOf(name, parts).map((topic) => delayed.find((source) => source.topic === topic) ?? { topic });
  return {
    batch(
      name: StageName,
      writes: readonly string[],
      process: BatchStage['process'],
      delayed?: readonly Source[],
    ): BatchStage {
      return { kind: 'batch', name, reads: sources(name, delayed), writes, maxEntries, process };
    },
    flow(
      name: StageName,
      writes: readonly string[],
      handle: FlowStage['handle'],
      delayed?: readonly Source[],
    ): FlowStage {
      return { kind: 'flow', name, reads: sources(name, delayed), writes, windowBytes, handle };
    },
  };
}
