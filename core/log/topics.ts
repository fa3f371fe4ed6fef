/** How a topic is laid out. */
export interface TopicSpec {
  readonly name: string;
  readonly partitions: number;
  /** True when one record may hold several entries (received events only). */
  readonly packed: boolean;
  /** How long records are kept, ms; `forever` for the catalog. */
  readonly retentionMs: number | 'forever';
  /** The newest record of each key is kept, and older ones need not be. */
  readonly compacted?: true;
}

/** Names of the fixed topics. Received and retry topics depend on configuration. */
export const TOPIC = {
  /** Internal: received events of workspaces that take more than their share of validate. */
  receivedSlow: 'events.received.slow',
  accepted: 'events.accepted',
  rejected: 'events.rejected',
  eventsSlow: 'events.slow',
  violations: 'violations',
  deliveries: 'deliveries',
  deliveriesSlow: 'deliveries.slow',
  deliveriesDead: 'deliveries.dead',
  outcomes: 'deliveries.outcomes',
  /** Internal: how far replays are. */
  replays: 'replays',
  profileChanges: 'profiles.changes',
  /** Internal: deletions and the like, for the audit log. */
  profileOperations: 'profiles.operations',
  /** Internal: what is to be sent by mail, */
  mail: 'mail',
  /** and what the mail server did not take at once. */
  mailRetry: 'mail.retry',
  catalog: 'catalog',
  poison: 'stages.dead',
  /** Internal: what stages had in hand when their process ended by its own fault. */
  crashes: 'stages.crashes',
} as const;

export function receivedTopic(environment: 'production' | 'development'): string {
  return `events.${environment}`;
}

export function retryTopic(label: string): string {
  return `deliveries.retry.${label}`;
}

export interface TopicOptions {
  readonly partitions: number;
  readonly retentionMs: number;
  /** Labels of the retry schedule, e.g. `10s`, `1m`. */
  readonly retryLabels: readonly string[];
  /** Further received topics declared by the operator. */
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
    TOPIC.deliveriesSlow,
    ...options.retryLabels.map(retryTopic),
    TOPIC.deliveriesDead,
    TOPIC.outcomes,
    TOPIC.replays,
    TOPIC.profileChanges,
    TOPIC.poison,
  ];
  const specs: TopicSpec[] = [
    ...received.map((name) => ({ name, partitions, packed: true, retentionMs })),
    ...derived.map((name) => ({ name, partitions, packed: false, retentionMs })),
    // Few, and one after the other: a mail server is not to be stormed.
    ...[TOPIC.mail, TOPIC.mailRetry].map((name) => ({ name, partitions: 1, packed: false, retentionMs })),
    // Few as well, and a call's two records stay in order.
    { name: TOPIC.profileOperations, partitions: 1, packed: false, retentionMs },
    { name: TOPIC.crashes, partitions: 1, packed: false, retentionMs },
    { name: TOPIC.catalog, partitions: 1, packed: false, retentionMs: 'forever' },
  ];
  return new Map(specs.map((spec) => [spec.name, spec]));
}

/** Header names on log entries. */
export const HEADER = {
  /** The catalog offset (decimal) that the writer had applied; readers wait until they have it too. */
  catalogPosition: 'catalog-position',
  messageId: 'message-id',
  workspaceId: 'workspace-id',
  type: 'type',
  environment: 'environment',
  /** W3C trace context, passed on as it came. */
  traceparent: 'traceparent',
  /** On accepted and rejected events: `accepted`, `warned`, `omitted` or `rejected`. On a delivery that was put off
   *  before, so that people saw it retrying: `retrying`. */
  outcome: 'outcome',
  /** On a delivery in a retry topic that its destination had no room for: when it expects its turn, epoch ms. */
  scheduledAt: 'turn',
  /** Beside it: since when its destination has had no room for it, epoch ms. */
  deferredSince: 'aside-since',
  /** On accepted events that have any: their violations as JSON, what the event and the other headers say left out. */
  violations: 'violations',
  contractId: 'contract-id',
  contractVersion: 'contract-version',
  /** Id of the write key that sent the event; from received records on to accepted and rejected events. */
  keyId: 'key-id',
  /**
   * On `events.received.slow`: the position of the received event, by which it is deduplicated unless it is re-evaluated.
   * On `events.rejected`, where a trace finds it.
   */
  receivedPosition: 'received-position',
  /** On `events.slow`: the rules still to be routed, comma-separated ids. */
  rules: 'rules',
  /** On `events.slow`, where rules are still to be matched: one of `MATCH`. */
  match: 'match',
  /** Beside them: how many rules share what the event may become, where those are more than are still to be routed. */
  rulesSharing: 'rules-sharing',
  /** On `events.slow`, of what came from `events.accepted`: its offset there, by which each partition stays in order. */
  acceptedOffset: 'accepted-offset',
  /**
   * On a delivery: the version of its rule that made it, or that it was redriven by; `0` where the rule was gone by then.
   * While the rule has this version, it need not be matched again.
   */
  ruleVersion: 'rule-version',
  /** Beside it, where a transformation made the event: `<type>:<name>` of the event that the rule took. */
  ruleEvent: 'rule-event',
  /** Id of the replay that something is part of: on `events.slow`, `replays` and deliveries. */
  replay: 'replay',
  /** Beside it on `events.slow`: `first`, where destinations receive the ids of the first deliveries. */
  replayIds: 'replay-ids',
  /** On `events.received.slow`, and on the accepted event that comes of it: id of the replay that re-evaluates a rejected event. */
  reevaluatedBy: 'reevaluated-by',
  /** On `events.slow`: how often this event's delivery was redriven. */
  redrives: 'redrives',
  /**
   * On the entry that begins a redrive: the death that it answers, see `deadDeliveryKey`. The stage that takes the entry claims it
   * and passes the entry on without it, so that of several redrives of one death one goes on.
   */
  redriveOf: 'redrive-of',
  /**
   * On `events.slow`, of a redriven event: where its delivery goes, for when its rule is gone. On a delivery with a turn:
   * whose room it waits for.
   */
  destinationId: 'destination-id',
} as const;

/**
 * Which rules of an event on `events.slow` are to be matched before they are applied: all that are enabled; those that
 * are named; or the named one and the enabled ones behind it.
 */
export const MATCH = { all: 'all', named: 'named', from: 'from' } as const;
