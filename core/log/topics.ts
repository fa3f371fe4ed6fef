import { retryLabels } from '../delivery/retry-schedule.ts';

/** The layout of a topic. */
export interface TopicSpec {
  readonly name: string;
  /** The partitions in use; the medium may have more. */
  readonly partitions: number;
  /** See `TopicLayout.earlier`. */
  readonly earlier?: readonly number[];
  /** The number of partitions never changes. */
  readonly fixed?: true;
  /** Its keys have no order to keep, so partitions that are added do not wait for the others. */
  readonly unordered?: true;
  /** True when one record may hold several entries (received events only). */
  readonly packed: boolean;
  /** Retention, ms; `forever` for the catalog. */
  readonly retentionMs: number | 'forever';
  /** Only the newest record of each key has to be kept. */
  readonly compacted?: true;
}

/** Names of the fixed topics. Received and retry topics depend on configuration. */
export const TOPIC = {
  /** Internal: received events of workspaces over their share of validate. */
  receivedSlow: 'events.received.slow',
  accepted: 'events.accepted',
  rejected: 'events.rejected',
  eventsSlow: 'events.slow',
  violations: 'violations',
  deliveries: 'deliveries',
  deliveriesSlow: 'deliveries.slow',
  deliveriesDead: 'deliveries.dead',
  outcomes: 'deliveries.outcomes',
  /** Internal: progress of replays. */
  replays: 'replays',
  /** Internal: replays that wait, as their workspace is over its budget of the hour. */
  replaysWaiting: 'replays.waiting',
  /** Internal: requests to load warehouses, and records of loads. Its partition decides which process loads a destination. */
  loads: 'loads',
  profileChanges: 'profiles.changes',
  /** Internal: events for the profiles of organizations over their share of the stage `profile`. */
  profilesSlow: 'profiles.slow',
  /** Internal: counts of events by the stages, for the funnel. */
  funnelCounts: 'funnel.counts',
  /** Internal: operations on profiles, and calls that are summed up, for the audit log. */
  profileOperations: 'profiles.operations',
  /** Internal: mails to send. */
  mail: 'mail',
  /** Internal: mails that the server did not accept at once. */
  mailRetry: 'mail.retry',
  catalog: 'catalog',
  poison: 'stages.dead',
  /** Internal: entries that were in flight when their process crashed. */
  crashes: 'stages.crashes',
} as const;

export function receivedTopic(environment: 'production' | 'development'): string {
  return `events.${environment}`;
}

export function retryTopic(step: string): string {
  return `deliveries.retry.${step}`;
}

interface TopicOptions {
  readonly partitions: number;
  readonly retentionMs: number;
  /** Steps of the retry schedule, e.g. `10s`, `1m`. */
  readonly retrySteps: readonly string[];
  /** Further received topics that the operator declared. */
  readonly dedicated: readonly string[];
}

/** Every topic of an installation, by name. */
export function declareTopics(options: TopicOptions): ReadonlyMap<string, TopicSpec> {
  const { partitions, retentionMs } = options;
  const received = [receivedTopic('production'), receivedTopic('development'), ...options.dedicated];
  const derived = [
    TOPIC.receivedSlow,
    TOPIC.accepted,
    TOPIC.rejected,
    TOPIC.eventsSlow,
    TOPIC.violations,
    TOPIC.deliveries,
    TOPIC.deliveriesDead,
    TOPIC.outcomes,
    TOPIC.replays,
    TOPIC.replaysWaiting,
    TOPIC.loads,
    TOPIC.profileChanges,
    TOPIC.profilesSlow,
  ];
  const unordered = [TOPIC.deliveriesSlow, ...retryLabels(options.retrySteps).map(retryTopic), TOPIC.poison];
  const single = { partitions: 1, packed: false, fixed: true } as const;
  const specs: TopicSpec[] = [
    ...received.map((name) => ({ name, partitions, packed: true, retentionMs })),
    ...derived.map((name) => ({ name, partitions, packed: false, retentionMs })),
    ...unordered.map((name) => ({ name, partitions, packed: false, retentionMs, unordered: true as const })),
    // Few records, with one owner, which knows what each organization was sent.
    ...[TOPIC.mail, TOPIC.mailRetry].map((name) => ({ name, retentionMs, ...single })),
    // Few records, and the two records of a call stay in order.
    { name: TOPIC.profileOperations, retentionMs, ...single },
    // A record sums up a commit; one owner, so that the counts of a workspace have one writer.
    { name: TOPIC.funnelCounts, retentionMs, ...single },
    { name: TOPIC.crashes, retentionMs, ...single },
    { name: TOPIC.catalog, retentionMs: 'forever', ...single },
  ];
  return new Map(specs.map((spec) => [spec.name, spec]));
}

/** Header names on log entries. */
export const HEADER = {
  /** The catalog offset (decimal) that the writer had applied; readers wait until they have applied it too. */
  catalogPosition: 'catalog-position',
  messageId: 'message-id',
  workspaceId: 'workspace-id',
  type: 'type',
  environment: 'environment',
  /** W3C trace context, passed on unchanged. */
  traceparent: 'traceparent',
  /**
   * On accepted and rejected events: `accepted`, `warned`, `omitted` or `rejected`. On a delivery that was
   * tried, or postponed without a request, and is therefore shown as retrying: `retrying`. Not on a deferred one.
   */
  outcome: 'outcome',
  /** On a delivery or mail in a retry topic that is to be tried after further waits only: from when on, epoch ms. */
  notBefore: 'not-before',
  /** On a deferred delivery in a retry topic: its scheduled slot, epoch ms. */
  scheduledAt: 'turn',
  /** Beside `scheduledAt`: since when the delivery has been deferred, epoch ms. */
  deferredSince: 'aside-since',
  /** On accepted events with violations: these as JSON, without what the event and the other headers hold. */
  violations: 'violations',
  contractId: 'contract-id',
  contractVersion: 'contract-version',
  /** Id of the write key of the event; on received, accepted and rejected events. */
  keyId: 'key-id',
  /**
   * On `events.received.slow`: the position of the received event, by which it is deduplicated unless it is
   * re-evaluated. On `events.rejected`: the same, for event traces.
   */
  receivedPosition: 'received-position',
  /** On a redriven record of `funnel.counts`: when the log first appended it, epoch ms. */
  appendedAt: 'appended-at',
  /** On `events.slow`: ids of the rules still to be applied, comma-separated. */
  rules: 'rules',
  /** On `events.slow`, where rules still have to be matched: one of `MATCH`. */
  match: 'match',
  /** Beside `match` with `at`: when the rules were to be matched, epoch ms; rules that were created later are none of them. */
  rulesAt: 'rules-at',
  /**
   * Beside `rules`: the number of rules that share the output bound of the event, where that is more than are listed.
   */
  rulesSharing: 'rules-sharing',
  /** On `events.slow` and `profiles.slow`: the event's offset on `events.accepted`, by which each partition stays in order. */
  acceptedOffset: 'accepted-offset',
  /**
   * On a delivery: the version of the rule that created or redrove it; `0` where the rule was deleted by then. While
   * the rule has this version, it is not matched again.
   */
  ruleVersion: 'rule-version',
  /**
   * Beside `ruleVersion`, where a transformation produced the event: `<type>:<name>` of the event that the rule
   * matched.
   */
  ruleEvent: 'rule-event',
  /**
   * Source, write key, type, `received_at` (epoch ms) and name of an event, divided by `|`: on accepted and rejected events, so
   * that stages need not parse them, but for names that the funnel shortens; on a delivery of route, those of the event that
   * the rule matched.
   */
  countedAs: 'counted-as',
  /** Id of the replay that the record belongs to; on `events.slow`, `replays` and deliveries. */
  replay: 'replay',
  /** Beside `replay` on `events.slow`: `first` where destinations receive the ids of the first deliveries. */
  replayIds: 'replay-ids',
  /**
   * On `events.received.slow`, and on the resulting accepted event: id of the replay that re-evaluates a rejected
   * event.
   */
  reevaluatedBy: 'reevaluated-by',
  /** On `events.slow`: how often the event's delivery was redriven. */
  redrives: 'redrives',
  /**
   * On the entry that starts a redrive: the `deadDeliveryKey` of the dead delivery. The stage that takes the entry
   * makes a dedupe claim for it and passes the entry on without this header, so that of several redrives of one dead
   * delivery only one continues.
   */
  redriveOf: 'redrive-of',
  /**
   * On the first records that a writer appends to a partition that was added: see `Bounds`. Readers have done all records
   * below before they are handed the record.
   */
  after: 'after',
  /** On `events.slow`, for a redriven event: the destination of its delivery, in case the rule was deleted. */
  destinationId: 'destination-id',
} as const;

/**
 * Which rules of an event on `events.slow` are matched before they are applied: all enabled ones, the named ones, the named
 * one and the enabled ones after it, or the named one and all enabled ones of a time (see `HEADER.rulesAt`).
 */
export const MATCH = { all: 'all', named: 'named', from: 'from', at: 'at' } as const;
