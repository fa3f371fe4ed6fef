import { STORAGE_BUDGETS } from '../limits/storage-budget.ts';

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
  /** Meaning of each label. Values are from bounded sets. */
  readonly labels?: Readonly<Record<string, string>>;
}

const stage = 'name of the stage';
const topic = 'name without the prefix';
const destination = 'id, for the first hundred of a process; all others are `other`';
const transformation = 'id, for the first hundred of a process; all others are `other`';
const connector = 'type of destination';

/** Every metric, by its name. */
export const METRICS = {
  tributary_http_requests_total: {
    kind: 'counter',
    help: 'Responses to HTTP requests.',
    labels: {
      operation: 'as in docs/reference/permissions.md, `none` for an unknown path',
      status: 'HTTP status code',
    },
  },
  tributary_http_request_duration_seconds: {
    kind: 'histogram',
    help: 'Time from the headers to the end of the response, without live streams.',
    labels: { operation: 'as in docs/reference/permissions.md, `none` for an unknown path' },
  },
  tributary_events_received_total: {
    kind: 'counter',
    help: 'Events that were acknowledged.',
    labels: { environment: 'of the write key' },
  },
  tributary_events_unconfirmed_total: {
    kind: 'counter',
    help: 'Events answered with 503 because the log did not confirm them.',
  },
  tributary_events_without_topic_total: {
    kind: 'counter',
    help: 'Events refused as the topic of their write key is no longer declared.',
    labels: { topic },
  },
  tributary_sdk_events_rejected_total: {
    kind: 'counter',
    help: 'Invalid SDK calls that were acknowledged and dropped.',
    labels: { error: 'kind of fault' },
  },
  tributary_http_bodies_refused_total: {
    kind: 'counter',
    help: 'Request bodies refused (503) for their memory budget.',
    labels: {
      reason: 'share: the sender held its share; ended: a sender below its share needed the memory',
    },
  },
  tributary_rate_limit_unchecked_total: {
    kind: 'counter',
    help: 'Calls that were admitted unchecked because the rate limiter did not answer.',
  },
  tributary_live_streams: { kind: 'gauge', help: 'Open live streams.' },
  tributary_live_events_sent_total: { kind: 'counter', help: 'Events sent to live streams.' },
  tributary_live_events_missed_total: {
    kind: 'counter',
    help: 'Events that slow live streams missed.',
  },
  tributary_issuer_key_fetches_total: {
    kind: 'counter',
    help: 'Fetches of the keys of an OpenID Connect issuer.',
    labels: { issuer: 'its URL', outcome: 'answered, failed' },
  },
  tributary_stage_lag_records: {
    kind: 'gauge',
    help: 'Records after the position of a stage. Gateways report every stage, also where no process runs it. (min)',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_lag_events: {
    kind: 'gauge',
    help: 'Events after the position of a stage. An estimate on Kafka, where a record of a received topic holds several.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_lag_seconds: {
    kind: 'gauge',
    help: 'Age of the oldest record after the position of a stage; 0 without lag. (max)',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_position: {
    kind: 'gauge',
    help: 'Offset below which a stage has done all records; its increase is the drain rate. (max)',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_log_end_offset: {
    kind: 'gauge',
    help: 'Offset of the next record of a partition; its increase is the arrival rate. (max)',
    labels: { topic, partition: 'its number' },
  },
  tributary_stage_members: {
    kind: 'gauge',
    help: 'Processes that run a stage, by its consumer group. (min)',
    labels: { stage },
  },
  tributary_stage_partitions: {
    kind: 'gauge',
    help: 'Partitions of the topic with the most that a stage reads.',
    labels: { stage },
  },
  tributary_stage_time_to_empty_seconds: {
    kind: 'gauge',
    help: 'Time until the lag of a stage is gone at the rates of the last minute, without retry topics; +Inf where it does not shrink.',
    labels: { stage },
  },
  tributary_stage_wanted_processes: {
    kind: 'gauge',
    help: 'Processes with which a stage empties its lag within five minutes, at most its partitions. (max)',
    labels: { stage },
  },
  tributary_stage_lag_collected_timestamp_seconds: {
    kind: 'gauge',
    help: 'Unix time at which a process last determined the lag, which it reports for a minute.',
    labels: {},
  },
  tributary_stage_batches_total: {
    kind: 'counter',
    help: 'Batches delivered to a stage.',
    labels: { stage },
  },
  tributary_stage_commit_duration_seconds: {
    kind: 'histogram',
    help: 'Duration of commits of output records and positions of a stage.',
    labels: { stage },
  },
  tributary_stage_dead_letters_total: {
    kind: 'counter',
    help: 'Entries that a stage dead-lettered to `stages.dead` after three attempts, see `tributary redrive`.',
    labels: { stage },
  },
  tributary_stage_quarantined_total: {
    kind: 'counter',
    help: 'Dead-lettered entries that had crashed the process twice.',
    labels: { stage },
  },
  tributary_stage_missed_records_total: {
    kind: 'counter',
    help: 'Records that retention dropped before a stage read them.',
    labels: { stage, topic },
  },
  tributary_stage_position_unknown: {
    kind: 'gauge',
    help: '1 for a partition whose position is lost, see `tributary positions`.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_events_validated_total: {
    kind: 'counter',
    help: 'Received events that were validated.',
    labels: { outcome: 'accepted, warned, omitted, rejected, duplicate' },
  },
  tributary_funnel_records_total: { kind: 'counter', help: 'Count records added to the funnel.', labels: {} },
  tributary_events_tailed_total: {
    kind: 'counter',
    help: 'Events appended to the live tail.',
    labels: { topic },
  },
  tributary_events_routed_total: {
    kind: 'counter',
    help: 'Records that routing emitted: deliveries, dead deliveries, and events for the slow queue.',
    labels: { topic },
  },
  tributary_rule_filter_failures_total: {
    kind: 'counter',
    help: 'Failures of rule filters. The event becomes a dead delivery of the rule.',
  },
  tributary_rule_filters_not_evaluated_total: {
    kind: 'counter',
    help: 'Rule filters beyond the work of an event.',
  },
  tributary_events_diverted_total: {
    kind: 'counter',
    help: 'Events sent to the slow queue because their workspace exceeded its share of the stage.',
    labels: { stage: 'validate, route, profile' },
  },
  tributary_events_over_budget_total: {
    kind: 'counter',
    help: 'Events that became one dead delivery over a budget of bytes.',
    labels: { budget: STORAGE_BUDGETS.join(', ') },
  },
  tributary_storage_refused_total: {
    kind: 'counter',
    help: 'Requests refused over a budget of bytes.',
    labels: { budget: STORAGE_BUDGETS.join(', ') },
  },
  tributary_storage_over_budget: {
    kind: 'gauge',
    help: 'Workspaces and organizations that are over a budget of bytes, as this process knows them.',
    labels: { budget: STORAGE_BUDGETS.join(', ') },
  },
  tributary_storage_largest_bytes: {
    kind: 'gauge',
    help: 'Bytes of the workspace or organization that has most.',
    labels: { budget: 'bytes_per_hour, bytes_held' },
  },
  tributary_events_replayed_total: { kind: 'counter', help: 'Events that replays sent again.' },
  tributary_redrives_repeated_total: {
    kind: 'counter',
    help: 'Redrives dropped because an earlier one was accepted.',
    labels: { stage: 'deliver, route.slow' },
  },
  tributary_history_entries_total: {
    kind: 'counter',
    help: 'Entries put into the history.',
    labels: { topic },
  },
  tributary_profile_events_total: {
    kind: 'counter',
    help: 'Events for profiles.',
    labels: {
      outcome:
        'written, not_production, nobody, no_workspace, nothing_left, too_large, too_many_identities, unknown_ucid',
    },
  },
  tributary_profile_identities_left_out_total: {
    kind: 'counter',
    help: 'Identities of events that were not linked.',
    labels: {
      reason: 'another_person, unlinked, deleted, too_many, shared, too_large',
      type: 'of the identity',
    },
  },
  tributary_profile_identities_set_aside_total: {
    kind: 'counter',
    help: 'Identities set aside because of too many users.',
    labels: { type: 'of the identity' },
  },
  tributary_profile_identities_skipped_total: {
    kind: 'counter',
    help: 'Values of events that are not valid identities.',
    labels: { reason: 'placeholder, not_text, too_long, blocked' },
  },
  tributary_profile_changes_pending: {
    kind: 'gauge',
    help: 'Changes of profiles in SQLite that are not published to `profiles.changes` yet.',
  },
  tributary_mails_total: {
    kind: 'counter',
    help: 'Attempts to send a mail, and notices that become none.',
    labels: {
      outcome: 'sent, slow, later, waiting, gathered, refused, expired, no_address, duplicate',
    },
  },
  tributary_transformation_runs_total: {
    kind: 'counter',
    help: 'Events processed by a transformation.',
    labels: { transformation, outcome: 'ok, dropped, fanned_out, or how it failed' },
  },
  tributary_transformation_run_duration_seconds: {
    kind: 'histogram',
    help: 'Duration of a transformation for an event.',
    labels: { transformation },
  },
  tributary_sandbox_events_total: {
    kind: 'counter',
    help: 'Events processed by user code.',
    labels: { outcome: 'ok, or how it failed' },
  },
  tributary_sandbox_run_duration_seconds: {
    kind: 'histogram',
    help: 'Duration of calls of the sandbox, with the wait for a worker.',
  },
  tributary_sandbox_slices_total: {
    kind: 'counter',
    help: 'Time slices in which workers ran user code.',
    labels: { stop: 'why a slice ended; `starved`: it got too little processor time' },
  },
  tributary_sandbox_slice_duration_seconds: { kind: 'histogram', help: 'Duration of time slices.' },
  tributary_sandbox_kills_total: {
    kind: 'counter',
    help: 'Workers that crashed or were killed because of user code.',
    labels: { reason: 'timeout, memory, died' },
  },
  tributary_deliveries_total: {
    kind: 'counter',
    help: 'Delivery attempts, and deliveries retried later without one.',
    labels: {
      outcome:
        'delivered, retry, dead, throttled (refused for the rate); without an attempt: circuit_open, deferred',
      connector,
    },
  },
  tributary_delivery_request_duration_seconds: {
    kind: 'histogram',
    help: 'Duration of requests to destinations.',
    labels: { connector },
  },
  tributary_destination_deliveries_per_second: {
    kind: 'gauge',
    help: 'Deliveries to a destination per second over the last minute.',
    labels: { destination, outcome: 'delivered, retry, dead, throttled, not_attempted' },
  },
  tributary_destination_attempt_quantile_seconds: {
    kind: 'gauge',
    help: 'Duration of the delivery attempts of the last minute; of `other`, that of the slowest destination.',
    labels: { destination, quantile: '0.5, 0.99' },
  },
  tributary_destination_pace_per_second: {
    kind: 'gauge',
    help: 'Requests per second at most to a destination that refused some for their rate; else 0.',
    labels: { destination },
  },
  tributary_destination_deliveries_pending: {
    kind: 'gauge',
    help: 'Queued deliveries of this process.',
    labels: { destination },
  },
  tributary_destination_deliveries_in_flight: {
    kind: 'gauge',
    help: 'Deliveries of this process in requests.',
    labels: { destination },
  },
  tributary_destination_oldest_pending_seconds: {
    kind: 'gauge',
    help: 'Waiting time of the oldest queued delivery.',
    labels: { destination },
  },
  tributary_destination_circuits_open: {
    kind: 'gauge',
    help: 'Circuit breakers that are open or half-open: 1, or their number for `other`.',
    labels: { destination },
  },
  tributary_destination_health_changes_total: {
    kind: 'counter',
    help: 'Changes in the health of destinations.',
    labels: { state: 'bad, well' },
  },
  tributary_alert_notices_total: {
    kind: 'counter',
    help: 'Notices about alerts that fired or recovered.',
    labels: { state: 'firing, ok', channel: 'delivery, mail, none' },
  },
  tributary_alert_evaluations_total: {
    kind: 'counter',
    help: 'Evaluations of alerts of workspaces (docs/reference/alert-kinds.md).',
    labels: { outcome: 'firing, ok, unknown, behind (not all events are counted), failed' },
  },
  tributary_destination_health_notices_total: {
    kind: 'counter',
    help: 'Notices about changes in the health of destinations.',
    labels: { state: 'bad, well', channel: 'delivery, mail, none' },
  },
  tributary_warehouse_loads_total: {
    kind: 'counter',
    help: 'Rounds of loaders: one takes a batch of each lane of a warehouse, if there is one.',
    labels: { outcome: 'loaded, failed' },
  },
  tributary_warehouse_rows_total: {
    kind: 'counter',
    help: 'Rows that were loaded into warehouses, without those that were there before.',
    labels: { connector },
  },
  tributary_warehouse_discards_total: {
    kind: 'counter',
    help: 'Values and events that a warehouse keeps in `discards`.',
    labels: { connector },
  },
  tributary_warehouse_bytes_total: {
    kind: 'counter',
    help: 'Characters of the records that were loaded into warehouses.',
    labels: { connector },
  },
  tributary_warehouse_load_duration_seconds: {
    kind: 'histogram',
    help: 'Duration of a batch, from reading the ledger to its commit.',
    labels: { connector },
  },
  tributary_warehouse_seconds_since_load: {
    kind: 'gauge',
    help: 'Time since a warehouse was up to date; of `other` the longest.',
    labels: { destination },
  },
  tributary_warehouse_load_every_seconds: {
    kind: 'gauge',
    help: 'Its setting `load_every`; of `other` the longest.',
    labels: { destination },
  },
  tributary_egress_refused_total: {
    kind: 'counter',
    help: 'Connections that were refused because their address is not allowed.',
  },
  tributary_engine_up: {
    kind: 'gauge',
    help: '1 when an engine answered its last check; 0 when it did not, or refuses writes (`/readyz` has the reason).',
    labels: { engine: 'kafka, redis, elasticsearch', part: 'main, stages' },
  },
  tributary_engine_checked_timestamp_seconds: {
    kind: 'gauge',
    help: 'Unix time at which an engine last answered or refused.',
    labels: { engine: 'kafka, redis, elasticsearch', part: 'main, stages' },
  },
  tributary_clock_ahead_seconds: {
    kind: 'gauge',
    help: 'How far the clock of the machine is ahead of those of the brokers.',
    labels: { engine: 'kafka', part: 'main, stages' },
  },
  tributary_data_folder_free_bytes: {
    kind: 'gauge',
    help: 'Space on the disk of the data folder that the user of the process may still use.',
  },
  tributary_data_folder_size_bytes: {
    kind: 'gauge',
    help: 'Size of the disk of the data folder.',
  },
  tributary_data_folder_reserve_bytes: {
    kind: 'gauge',
    help: 'Free space of it that is kept, see TRIBUTARY_DISK_RESERVE.',
  },
  tributary_broker_disk_free_bytes: {
    kind: 'gauge',
    help: 'Free space on the fullest disk of a broker, from Kafka 3.3 on with the right DESCRIBE on the cluster.',
    labels: { broker: 'its id' },
  },
  tributary_broker_disk_size_bytes: {
    kind: 'gauge',
    help: 'Size of that disk.',
    labels: { broker: 'its id' },
  },
  tributary_broker_disk_reserve_bytes: {
    kind: 'gauge',
    help: 'Free space of it that is kept, see TRIBUTARY_DISK_RESERVE.',
    labels: { broker: 'its id' },
  },
  tributary_build_info: {
    kind: 'gauge',
    help: 'Always 1; the labels describe the running process.',
    labels: {
      version: 'of Tributary',
      commit: 'it was built from, or unknown',
      node: 'version of Node',
      role: 'dev, serve, gateway, processor',
    },
  },
  tributary_metrics_collected_timestamp_seconds: {
    kind: 'gauge',
    help: 'Unix time at which the values of a part of the process were collected.',
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
