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
