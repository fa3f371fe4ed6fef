/** Structured logging. Never log a key, a token, a trait or a property. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const NO_LOGGER: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export type Labels = Readonly<Record<string, string>>;

/**
 * Reports metrics. Implementations register a metric at first use; calls never throw and never wait. Label values
 * must be bounded sets (stage, topic, outcome), never ids that producers choose.
 */
export interface Metrics {
  /** Adds to a counter. */
  count<Name extends CounterName>(name: Name, labels?: LabelsOf<Name>, by?: number): void;
  /** Sets a gauge. */
  gauge(name: GaugeName, value: number, labels?: Labels): void;
  /** Removes a gauge whose subject does not exist any more. */
  removeGauge(name: GaugeName, labels: Labels): void;
  /** Observes a duration in seconds. */
  observe<Name extends HistogramName>(name: Name, seconds: number, labels?: LabelsOf<Name>): void;
}

export const NO_METRICS: Metrics = { count() {}, gauge() {}, removeGauge() {}, observe() {} };

/**
 * One metric that processes report at `/metrics`. Names follow Prometheus: one prefix, base units, `_total` for counters and
 * `_duration_seconds` for histograms.
 */
export interface MetricDescription {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** What each label means. Values are of bounded sets. */
  readonly labels?: Readonly<Record<string, string>>;
}

const stage = 'name of the stage';
const topic = 'without the prefix';
const destination = 'id, for the first hundred of a process; the others together are `other`';
const transformation = 'id, for the first hundred of a process; the others together are `other`';
const connector = 'the kind of destination';

/** Every metric, by its name. */
export const METRICS = {
  tributary_http_requests_total: {
    kind: 'counter',
    help: 'Responses to HTTP requests.',
    labels: {
      operation: 'as in docs/permissions.md, `none` where nothing is there',
      status: 'of the answer',
    },
  },
  tributary_http_request_duration_seconds: {
    kind: 'histogram',
    help: 'From the headers of a request to the end of its answer; live streams are left out.',
    labels: { operation: 'as in docs/permissions.md, `none` where nothing is there' },
  },
  tributary_events_received_total: {
    kind: 'counter',
    help: 'Events that were made durable and acknowledged.',
    labels: { environment: 'of the write key' },
  },
  tributary_events_unconfirmed_total: {
    kind: 'counter',
    help: 'Events that were answered with 503 as the log did not confirm them: they may be there all the same.',
  },
  tributary_events_without_topic_total: {
    kind: 'counter',
    help: 'Events that were refused as the topic of their write key is not declared any more.',
    labels: { topic },
  },
  tributary_sdk_events_rejected_total: {
    kind: 'counter',
    help: 'Calls of SDKs that were answered as taken, as their protocol asks, and are no events.',
    labels: { error: 'what is wrong with them' },
  },
  tributary_http_bodies_refused_total: {
    kind: 'counter',
    help: 'Request bodies that were answered with 503 as their memory budget was used up.',
    labels: {
      reason:
        'share: its sender held its share of the memory; ended: it came slowly and a sender below its share needed the memory',
    },
  },
  tributary_rate_limit_unchecked_total: {
    kind: 'counter',
    help: 'Calls that were let through unchecked as the rate limiter did not answer.',
  },
  tributary_live_streams: { kind: 'gauge', help: 'Live streams that are open.' },
  tributary_live_events_sent_total: { kind: 'counter', help: 'Events that live streams were sent.' },
  tributary_live_events_missed_total: {
    kind: 'counter',
    help: 'Events that live streams were told they missed, as they read too slowly.',
  },
  tributary_issuer_key_fetches_total: {
    kind: 'counter',
    help: 'Times the keys of an OpenID Connect issuer were fetched.',
    labels: { issuer: 'its URL', outcome: 'answered, failed' },
  },
  tributary_stage_lag_records: {
    kind: 'gauge',
    help: 'Records behind the position of a stage. Where several processes report a partition, the least is right.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_lag_events: {
    kind: 'gauge',
    help: 'Events behind the position of a stage: on Kafka, where a record of a received topic holds several, an estimate from the records read before.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_lag_seconds: {
    kind: 'gauge',
    help: 'Age of the oldest record behind the position of a stage, since the log took it; 0 where there is none. Reported by the process that owns the partition.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_lag_collected_timestamp_seconds: {
    kind: 'gauge',
    help: 'When the lag of all stages of a process was last known, as Unix time; it stands still while the log does not answer.',
    labels: {},
  },
  tributary_stage_batches_total: {
    kind: 'counter',
    help: 'Batches handed to a stage.',
    labels: { stage },
  },
  tributary_stage_commit_duration_seconds: {
    kind: 'histogram',
    help: 'How long the log took to commit the output of a stage with its positions.',
    labels: { stage },
  },
  tributary_stage_dead_letters_total: {
    kind: 'counter',
    help: 'Entries that a stage dead-lettered after three attempts: they are on `stages.dead`, see `tributary redrive`.',
    labels: { stage },
  },
  tributary_stage_quarantined_total: {
    kind: 'counter',
    help: 'Entries among them that were not tried again, as they had ended the process twice.',
    labels: { stage },
  },
  tributary_stage_missed_records_total: {
    kind: 'counter',
    help: 'Records that retention dropped before a stage read them.',
    labels: { stage, topic },
  },
  tributary_stage_position_unknown: {
    kind: 'gauge',
    help: '1 for a partition that a stage does not read as its position is lost: see `tributary positions`. Absent otherwise.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_partition_restarts_total: {
    kind: 'counter',
    help: 'Restarts of a partition that made no progress although there were more records.',
    labels: { stage, topic },
  },
  tributary_events_validated_total: {
    kind: 'counter',
    help: 'Received events that were validated.',
    labels: { outcome: 'accepted, warned, omitted, rejected, duplicate' },
  },
  tributary_events_counted_total: { kind: 'counter', help: 'Events added to the volume.', labels: { topic } },
  tributary_events_tailed_total: {
    kind: 'counter',
    help: 'Events handed to the live tail.',
    labels: { topic },
  },
  tributary_events_routed_total: {
    kind: 'counter',
    help: 'Records that routing made of events: deliveries, dead deliveries, and events for the slow queue.',
    labels: { topic },
  },
  tributary_rule_filter_failures_total: {
    kind: 'counter',
    help: 'Times the filter of a rule failed on an event, which is then a dead delivery of the rule.',
  },
  tributary_rule_filters_not_evaluated_total: {
    kind: 'counter',
    help: 'Times the filter of a rule was not evaluated, as those of its workspace took too much work for an event.',
  },
  tributary_events_deferred_total: {
    kind: 'counter',
    help: 'Events that a stage sent to its slow queue, as their workspace took more than its share of the stage.',
    labels: { stage: 'validate, route' },
  },
  tributary_events_replayed_total: { kind: 'counter', help: 'Events that replays sent again.' },
  tributary_redrives_repeated_total: {
    kind: 'counter',
    help: 'Redrives that were dropped, as an earlier one of the same dead delivery had been taken.',
    labels: { stage: 'deliver, route.slow' },
  },
  tributary_history_entries_total: {
    kind: 'counter',
    help: 'Entries put into the history.',
    labels: { topic },
  },
  tributary_profile_events_total: {
    kind: 'counter',
    help: 'Events about somebody.',
    labels: {
      outcome:
        'written, not_production, nobody, no_workspace, nothing_left, too_large, too_many_identities, unknown_ucid',
    },
  },
  tributary_profile_identities_left_out_total: {
    kind: 'counter',
    help: 'Identities of events that were not linked.',
    labels: { reason: 'another_person, unlinked, deleted, too_many, shared', type: 'of the identity' },
  },
  tributary_profile_identities_set_aside_total: {
    kind: 'counter',
    help: 'Identities that join nobody any more: too many different users came with them.',
    labels: { type: 'of the identity' },
  },
  tributary_profile_identities_skipped_total: {
    kind: 'counter',
    help: 'Values of events that are no identities.',
    labels: { reason: 'placeholder, not_text, too_long, blocked' },
  },
  tributary_profile_changes_pending: {
    kind: 'gauge',
    help: 'Changes of profiles, on SQLite, that are not on `profiles.changes` yet.',
  },
  tributary_mails_total: {
    kind: 'counter',
    help: 'Attempts to send a mail.',
    labels: { outcome: 'sent, later, waiting, refused, expired, no_address, duplicate' },
  },
  tributary_transformation_runs_total: {
    kind: 'counter',
    help: 'Events that a transformation was run for.',
    labels: { transformation, outcome: 'ok, dropped, fanned_out, or how it failed' },
  },
  tributary_transformation_run_duration_seconds: {
    kind: 'histogram',
    help: 'How long a transformation took for an event.',
    labels: { transformation },
  },
  tributary_sandbox_events_total: {
    kind: 'counter',
    help: 'Events that user code was run for.',
    labels: { outcome: 'ok, or how it failed' },
  },
  tributary_sandbox_run_duration_seconds: {
    kind: 'histogram',
    help: 'How long a call of the sandbox took, with the wait for a worker.',
  },
  tributary_sandbox_slices_total: {
    kind: 'counter',
    help: 'Slices of time in which workers ran user code.',
    labels: { stop: 'why a slice ended' },
  },
  tributary_sandbox_slice_duration_seconds: { kind: 'histogram', help: 'How long a slice took.' },
  tributary_sandbox_kills_total: {
    kind: 'counter',
    help: 'Workers that user code took down, or that were killed for it.',
    labels: { reason: 'timeout, memory, died' },
  },
  tributary_deliveries_total: {
    kind: 'counter',
    help: 'Attempts to deliver, and attempts that were not made.',
    labels: { outcome: 'delivered, retry, dead; not made: circuit_open, put_aside', connector },
  },
  tributary_delivery_request_duration_seconds: {
    kind: 'histogram',
    help: 'How long a call to a destination took, whatever it carried.',
    labels: { connector },
  },
  tributary_destination_deliveries_per_second: {
    kind: 'gauge',
    help: 'Deliveries of the last minute to a destination, a second.',
    labels: { destination, outcome: 'delivered, retry, dead, put_off' },
  },
  tributary_destination_attempt_duration_seconds: {
    kind: 'gauge',
    help: 'How long delivery attempts of the last minute took.',
    labels: { destination, quantile: '0.5, 0.99' },
  },
  tributary_destination_deliveries_pending: {
    kind: 'gauge',
    help: 'Deliveries of this process that are queued.',
    labels: { destination },
  },
  tributary_destination_deliveries_in_flight: {
    kind: 'gauge',
    help: 'Deliveries of this process that are being sent.',
    labels: { destination },
  },
  tributary_destination_oldest_pending_seconds: {
    kind: 'gauge',
    help: 'For how long the oldest queued delivery has been waiting.',
    labels: { destination },
  },
  tributary_destination_circuits_open: {
    kind: 'gauge',
    help: 'Circuit breakers that are open or half-open: 1, or how many of `other`.',
    labels: { destination },
  },
  tributary_destination_health_changes_total: {
    kind: 'counter',
    help: 'Changes in the health of destinations.',
    labels: { state: 'bad, well' },
  },
  tributary_destination_health_alerts_total: {
    kind: 'counter',
    help: 'Alerts about such changes.',
    labels: { state: 'bad, well', way: 'delivery, mail, nobody' },
  },
  tributary_egress_refused_total: {
    kind: 'counter',
    help: 'Connections that were not made as their address is not allowed.',
  },
  tributary_engine_up: {
    kind: 'gauge',
    help: '1 where an engine answered what it was last asked, reads and writes; 0 where it did not, or refuses writes. `/readyz` of the admin port says why.',
    labels: { engine: 'kafka, redis, elasticsearch', part: 'main, stages' },
  },
  tributary_engine_checked_timestamp_seconds: {
    kind: 'gauge',
    help: 'When an engine last answered or refused, as Unix time; it stands still while the engine hangs.',
    labels: { engine: 'kafka, redis, elasticsearch', part: 'main, stages' },
  },
  tributary_build_info: {
    kind: 'gauge',
    help: 'Always 1: what runs.',
    labels: {
      version: 'of Tributary',
      node: 'version of Node',
      role: 'dev, gateway, processor',
    },
  },
  tributary_metrics_collected_timestamp_seconds: {
    kind: 'gauge',
    help: 'When the values of a part of the process were collected, as Unix time; it stands still while that part does not report.',
    labels: { part: 'main, stages' },
  },
} as const satisfies Readonly<Record<string, MetricDescription>>;

type NameOf<Kind extends MetricDescription['kind']> = {
  [Name in keyof typeof METRICS]: (typeof METRICS)[Name]['kind'] extends Kind ? Name : never;
}[keyof typeof METRICS];

type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
type HistogramName = NameOf<'histogram'>;

/** The labels that a metric is reported with. */
type LabelsOf<Name extends keyof typeof METRICS> = (typeof METRICS)[Name] extends {
  readonly labels: infer Declared;
}
  ? { readonly [Label in keyof Declared]: string }
  : Readonly<Record<string, never>>;
