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
export interface MetricDescription<Kind = 'counter' | 'gauge' | 'histogram', Labels = Meanings> {
  readonly kind: Kind;
  readonly help: string;
  readonly labels?: Labels;
}

/** The meaning of each label. Values are from bounded sets. */
type Meanings = Readonly<Record<string, string>>;

function metric<const Kind extends string>(kind: Kind) {
  return <const Labels extends Meanings = Record<never, never>>(help: string, labels?: Labels) =>
    ({ kind, help, ...(labels && { labels }) }) as MetricDescription<Kind, Labels>;
}

const [counter, gauge, histogram] = [metric('counter'), metric('gauge'), metric('histogram')];

const stage = 'name of the stage';
const topic = 'name without the prefix';
const partition = 'its number';
const destination = 'id, for the first hundred of a process; all others are `other`';
const transformation = 'id, for the first hundred of a process; all others are `other`';
const connector = 'type of destination';

/** Every metric, by its name. */
export const METRICS = {
  tributary_http_requests_total: counter('Responses to HTTP requests.', {
    operation: 'as in docs/reference/permissions.md, `none` for an unknown path',
    status: 'HTTP status code',
  }),
  tributary_http_request_duration_seconds: histogram(
    'Time from the headers to the end of the response, without live streams.',
    { operation: 'as in docs/reference/permissions.md, `none` for an unknown path' },
  ),
  tributary_events_received_total: counter('Events that were acknowledged.', {
    environment: 'of the write key',
  }),
  tributary_events_unconfirmed_total: counter(
    'Events answered with 503 because the log did not confirm them.',
  ),
  tributary_events_without_topic_total: counter(
    'Events refused as the topic of their write key is no longer declared.',
    { topic },
  ),
  tributary_sdk_events_rejected_total: counter('Invalid SDK calls that were acknowledged and dropped.', {
    error: 'kind of fault',
  }),
  tributary_http_bodies_refused_total: counter('Request bodies refused (503) for their memory budget.', {
    reason: 'share: the sender held its share; ended: a sender below its share needed the memory',
  }),
  tributary_rate_limit_unchecked_total: counter(
    'Calls that were admitted unchecked because the rate limiter did not answer.',
  ),
  tributary_live_streams: gauge('Open live streams.'),
  tributary_live_events_sent_total: counter('Events sent to live streams.'),
  tributary_live_events_missed_total: counter('Events that slow live streams missed.'),
  tributary_issuer_key_fetches_total: counter('Fetches of the keys of an OpenID Connect issuer.', {
    issuer: 'its URL',
    outcome: 'answered, failed',
  }),
  tributary_stage_lag_records: gauge(
    'Records after the position of a stage. Gateways report every stage, also where no process runs it. (min)',
    { stage, topic, partition },
  ),
  tributary_stage_lag_events: gauge(
    'Events after the position of a stage. An estimate on Kafka, where a record of a received topic holds several.',
    { stage, topic, partition },
  ),
  tributary_stage_lag_seconds: gauge(
    'Age of the oldest record after the position of a stage; 0 without lag. (max)',
    { stage, topic, partition },
  ),
  tributary_stage_position: gauge(
    'Offset below which a stage has done all records; its increase is the drain rate. (max)',
    { stage, topic, partition },
  ),
  tributary_log_end_offset: gauge(
    'Offset of the next record of a partition; its increase is the arrival rate. (max)',
    { topic, partition },
  ),
  tributary_stage_members: gauge('Processes that run a stage, by its consumer group. (min)', { stage }),
  tributary_stage_partitions: gauge('Partitions of the topic with the most that a stage reads.', { stage }),
  tributary_stage_time_to_empty_seconds: gauge(
    'Time until the lag of a stage is gone at the rates of the last minute, without retry topics; +Inf where it does not shrink.',
    { stage },
  ),
  tributary_stage_wanted_processes: gauge(
    'Processes with which a stage empties its lag within five minutes, at most its partitions. (max)',
    { stage },
  ),
  tributary_stage_lag_collected_timestamp_seconds: gauge(
    'Unix time at which a process last determined the lag, which it reports for a minute.',
  ),
  tributary_stage_batches_total: counter('Batches delivered to a stage.', { stage }),
  tributary_stage_commit_duration_seconds: histogram(
    'Duration of commits of output records and positions of a stage.',
    { stage },
  ),
  tributary_stage_dead_letters_total: counter(
    'Entries that a stage dead-lettered to `stages.dead` after three attempts, see `tributary redrive`.',
    { stage },
  ),
  tributary_stage_quarantined_total: counter('Dead-lettered entries that had crashed the process twice.', {
    stage,
  }),
  tributary_stage_missed_records_total: counter('Records that retention dropped before a stage read them.', {
    stage,
    topic,
  }),
  tributary_stage_position_unknown: gauge(
    '1 for a partition whose position is lost, see `tributary positions`.',
    { stage, topic, partition },
  ),
  tributary_events_validated_total: counter('Received events that were validated.', {
    outcome: 'accepted, warned, omitted, rejected, duplicate',
  }),
  tributary_funnel_records_total: counter('Count records added to the funnel.'),
  tributary_events_tailed_total: counter('Events appended to the live tail.', { topic }),
  tributary_events_routed_total: counter(
    'Records that routing emitted: deliveries, dead deliveries, and events for the slow queue.',
    { topic },
  ),
  tributary_rule_filter_failures_total: counter(
    'Failures of rule filters. The event becomes a dead delivery of the rule.',
  ),
  tributary_rule_filters_not_evaluated_total: counter('Rule filters beyond the work of an event.'),
  tributary_events_diverted_total: counter(
    'Events sent to the slow queue because their workspace exceeded its share of the stage.',
    { stage: 'validate, route, profile' },
  ),
  tributary_events_over_budget_total: counter(
    'Events that became one dead delivery over a budget of bytes.',
    { budget: STORAGE_BUDGETS.join(', ') },
  ),
  tributary_storage_refused_total: counter('Requests refused over a budget of bytes.', {
    budget: STORAGE_BUDGETS.join(', '),
  }),
  tributary_storage_over_budget: gauge(
    'Workspaces and organizations that are over a budget of bytes, as this process knows them.',
    { budget: STORAGE_BUDGETS.join(', ') },
  ),
  tributary_storage_largest_bytes: gauge('Bytes of the workspace or organization that has most.', {
    budget: 'bytes_per_hour, bytes_held',
  }),
  tributary_events_replayed_total: counter('Events that replays sent again.'),
  tributary_redrives_repeated_total: counter('Redrives dropped because an earlier one was accepted.', {
    stage: 'deliver, route.slow',
  }),
  tributary_history_entries_total: counter('Entries put into the history.', { topic }),
  tributary_profile_events_total: counter('Events for profiles.', {
    outcome:
      'written, not_production, nobody, no_workspace, nothing_left, too_large, too_many_identities, unknown_ucid',
  }),
  tributary_profile_identities_left_out_total: counter('Identities of events that were not linked.', {
    reason: 'another_person, unlinked, deleted, too_many, shared, too_large',
    type: 'of the identity',
  }),
  tributary_profile_identities_set_aside_total: counter('Identities set aside because of too many users.', {
    type: 'of the identity',
  }),
  tributary_profile_identities_skipped_total: counter('Values of events that are not valid identities.', {
    reason: 'placeholder, not_text, too_long, blocked',
  }),
  tributary_profile_changes_pending: gauge(
    'Changes of profiles in SQLite that are not published to `profiles.changes` yet.',
  ),
  tributary_mails_total: counter('Attempts to send a mail, and notices that become none.', {
    outcome: 'sent, slow, later, waiting, gathered, refused, expired, no_address, duplicate',
  }),
  tributary_transformation_runs_total: counter('Events processed by a transformation.', {
    transformation,
    outcome: 'ok, dropped, fanned_out, or how it failed',
  }),
  tributary_transformation_run_duration_seconds: histogram('Duration of a transformation for an event.', {
    transformation,
  }),
  tributary_sandbox_events_total: counter('Events processed by user code.', {
    outcome: 'ok, or how it failed',
  }),
  tributary_sandbox_run_duration_seconds: histogram(
    'Duration of calls of the sandbox, with the wait for a worker.',
  ),
  tributary_sandbox_slices_total: counter('Time slices in which workers ran user code.', {
    stop: 'why a slice ended; `starved`: it got too little processor time',
  }),
  tributary_sandbox_slice_duration_seconds: histogram('Duration of time slices.'),
  tributary_sandbox_kills_total: counter('Workers that crashed or were killed because of user code.', {
    reason: 'timeout, memory, died',
  }),
  tributary_deliveries_total: counter('Delivery attempts, and deliveries retried later without one.', {
    outcome:
      'delivered, retry, dead, throttled (refused for the rate); without an attempt: circuit_open, deferred',
    connector,
  }),
  tributary_delivery_request_duration_seconds: histogram('Duration of requests to destinations.', {
    connector,
  }),
  tributary_destination_deliveries_per_second: gauge(
    'Deliveries to a destination per second over the last minute.',
    { destination, outcome: 'delivered, retry, dead, throttled, not_attempted' },
  ),
  tributary_destination_attempt_quantile_seconds: gauge(
    'Duration of the delivery attempts of the last minute; of `other`, that of the slowest destination.',
    { destination, quantile: '0.5, 0.99' },
  ),
  tributary_destination_pace_per_second: gauge(
    'Requests per second at most to a destination that refused some for their rate; else 0.',
    { destination },
  ),
  tributary_destination_deliveries_pending: gauge('Queued deliveries of this process.', { destination }),
  tributary_destination_deliveries_in_flight: gauge('Deliveries of this process in requests.', {
    destination,
  }),
  tributary_destination_oldest_pending_seconds: gauge('Waiting time of the oldest queued delivery.', {
    destination,
  }),
  tributary_destination_circuits_open: gauge(
    'Circuit breakers that are open or half-open: 1, or their number for `other`.',
    { destination },
  ),
  tributary_destination_health_changes_total: counter('Changes in the health of destinations.', {
    state: 'bad, well',
  }),
  tributary_alert_notices_total: counter('Notices about alerts that fired or recovered.', {
    state: 'firing, ok',
    channel: 'delivery, mail, none',
  }),
  tributary_alert_evaluations_total: counter(
    'Evaluations of alerts of workspaces (docs/reference/alert-kinds.md).',
    { outcome: 'firing, ok, unknown, behind (not all events are counted), failed' },
  ),
  tributary_destination_health_notices_total: counter(
    'Notices about changes in the health of destinations.',
    { state: 'bad, well', channel: 'delivery, mail, none' },
  ),
  tributary_warehouse_loads_total: counter(
    'Rounds of loaders: one takes a batch of each lane of a warehouse, if there is one.',
    { outcome: 'loaded, failed' },
  ),
  tributary_warehouse_rows_total: counter(
    'Rows that were loaded into warehouses, without those that were there before.',
    { connector },
  ),
  tributary_warehouse_discards_total: counter('Values and events that a warehouse keeps in `discards`.', {
    connector,
  }),
  tributary_warehouse_bytes_total: counter('Characters of the records that were loaded into warehouses.', {
    connector,
  }),
  tributary_warehouse_load_duration_seconds: histogram(
    'Duration of a batch, from reading the ledger to its commit.',
    { connector },
  ),
  tributary_warehouse_seconds_since_load: gauge(
    'Time since a warehouse was up to date; of `other` the longest.',
    { destination },
  ),
  tributary_warehouse_load_every_seconds: gauge('Its setting `load_every`; of `other` the longest.', {
    destination,
  }),
  tributary_egress_refused_total: counter(
    'Connections that were refused because their address is not allowed.',
  ),
  tributary_engine_up: gauge(
    '1 when an engine answered its last check; 0 when it did not, or refuses writes (`/readyz` has the reason).',
    { engine: 'kafka, redis, elasticsearch', part: 'main, stages' },
  ),
  tributary_engine_checked_timestamp_seconds: gauge(
    'Unix time at which an engine last answered or refused.',
    { engine: 'kafka, redis, elasticsearch', part: 'main, stages' },
  ),
  tributary_clock_ahead_seconds: gauge('How far the clock of the machine is ahead of those of the brokers.', {
    engine: 'kafka',
    part: 'main, stages',
  }),
  tributary_data_folder_free_bytes: gauge(
    'Space on the disk of the data folder that the user of the process may still use.',
  ),
  tributary_data_folder_size_bytes: gauge('Size of the disk of the data folder.'),
  tributary_data_folder_reserve_bytes: gauge('Free space of it that is kept, see TRIBUTARY_DISK_RESERVE.'),
  tributary_broker_disk_free_bytes: gauge(
    'Free space on the fullest disk of a broker, from Kafka 3.3 on with the right DESCRIBE on the cluster.',
    { broker: 'its id' },
  ),
  tributary_broker_disk_size_bytes: gauge('Size of that disk.', { broker: 'its id' }),
  tributary_broker_disk_reserve_bytes: gauge('Free space of it that is kept, see TRIBUTARY_DISK_RESERVE.', {
    broker: 'its id',
  }),
  tributary_build_info: gauge('Always 1; the labels describe the running process.', {
    version: 'of Tributary',
    commit: 'it was built from, or unknown',
    node: 'version of Node',
    role: 'dev, serve, gateway, processor',
  }),
  tributary_metrics_collected_timestamp_seconds: gauge(
    'Unix time at which the values of a part of the process were collected.',
    { part: 'main, stages' },
  ),
};

type NameOf<Kind> = {
  [Name in keyof typeof METRICS]: (typeof METRICS)[Name]['kind'] extends Kind ? Name : never;
}[keyof typeof METRICS];

type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
type HistogramName = NameOf<'histogram'>;

/** The labels that a metric is reported with. */
type LabelsOf<Name extends keyof typeof METRICS> =
  (typeof METRICS)[Name] extends MetricDescription<unknown, infer Declared>
    ? Readonly<keyof Declared extends never ? Record<string, never> : Record<keyof Declared, string>>
    : never;
