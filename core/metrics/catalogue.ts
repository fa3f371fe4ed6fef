/** One figure that processes tell at `/metrics`. */
export interface MetricDescription {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** What each label says. Values are of bounded sets. */
  readonly labels?: Readonly<Record<string, string>>;
}

const stage = 'whose group it is';
const topic = 'without the prefix';
const destination = 'id, for the first hundred of a process; the others together are `other`';
const transformation = 'id, for the first hundred of a process; the others together are `other`';
const connector = 'the kind of destination';

/** Every figure there is, by its name. */
export const METRICS = {
  tributary_http_requests_total: {
    kind: 'counter',
    help: 'Answers to requests.',
    labels: {
      operation: 'as in docs/permissions.md, `none` where nothing is there',
      status: 'of the answer',
    },
  },
  tributary_http_request_seconds: {
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
  tributary_bodies_refused_total: {
    kind: 'counter',
    help: 'Bodies that were answered with 503 for want of memory.',
    labels: {
      reason:
        'share: its sender held its share of the memory; ended: it came slowly and a sender below its share needed the memory',
    },
  },
  tributary_rate_limit_unchecked_total: {
    kind: 'counter',
    help: 'Calls that passed unchecked as the rate limiter did not answer.',
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
  tributary_stage_lag: {
    kind: 'gauge',
    help: 'Records behind the position of a stage. What several processes say of a partition: the least is right.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_lag_events: {
    kind: 'gauge',
    help: 'Events behind the position of a stage: on Kafka, where a record of a received topic holds several, an estimate from the records read before.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_oldest_seconds: {
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
    help: 'Batches that a stage was handed.',
    labels: { stage },
  },
  tributary_stage_commit_seconds: {
    kind: 'histogram',
    help: 'How long the log took to commit what a stage emitted with the positions behind it.',
    labels: { stage },
  },
  tributary_stage_poison_total: {
    kind: 'counter',
    help: 'Entries that a stage gave up after three attempts: they are on `stages.dead`, see `tributary redrive`.',
    labels: { stage },
  },
  tributary_stage_quarantined_total: {
    kind: 'counter',
    help: 'Entries among them that were not handed over any more, as they had ended the process twice.',
    labels: { stage },
  },
  tributary_stage_missed_total: {
    kind: 'counter',
    help: 'Records that retention dropped before a stage came to them.',
    labels: { stage, topic },
  },
  tributary_stage_position_unknown: {
    kind: 'gauge',
    help: '1 for a partition that a stage does not read as its position is lost: see `tributary positions`. Absent otherwise.',
    labels: { stage, topic, partition: 'its number' },
  },
  tributary_stage_stuck_total: {
    kind: 'counter',
    help: 'Partitions that a stage began anew as it did not get on, though there was more.',
    labels: { stage, topic },
  },
  tributary_events_validated_total: {
    kind: 'counter',
    help: 'Received events that were judged.',
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
    help: 'What events became on their way to destinations: deliveries, dead ones, and what goes to the slow lane.',
    labels: { topic },
  },
  tributary_rule_filters_failed_total: {
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
  tributary_profile_changes_waiting: {
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
  tributary_transformation_run_seconds: {
    kind: 'histogram',
    help: 'How long a transformation took for an event.',
    labels: { transformation },
  },
  tributary_sandbox_events_total: {
    kind: 'counter',
    help: 'Events that user code was run for.',
    labels: { outcome: 'ok, or how it failed' },
  },
  tributary_sandbox_run_seconds: {
    kind: 'histogram',
    help: 'How long a call of the sandbox took, with the wait for a worker.',
  },
  tributary_sandbox_slices_total: {
    kind: 'counter',
    help: 'Stretches that workers ran user code for.',
    labels: { stop: 'why a stretch ended' },
  },
  tributary_sandbox_slice_seconds: { kind: 'histogram', help: 'How long a stretch took.' },
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
  tributary_delivery_seconds: {
    kind: 'histogram',
    help: 'How long a call to a destination took, whatever it carried.',
    labels: { connector },
  },
  tributary_destination_deliveries_per_second: {
    kind: 'gauge',
    help: 'Deliveries of the last minute to a destination, a second.',
    labels: { destination, outcome: 'delivered, retry, dead, put_off' },
  },
  tributary_destination_attempt_seconds: {
    kind: 'gauge',
    help: 'How long attempts of the last minute took.',
    labels: { destination, quantile: '0.5, 0.99' },
  },
  tributary_destination_waiting: {
    kind: 'gauge',
    help: 'Deliveries in this process that wait for their turn.',
    labels: { destination },
  },
  tributary_destination_under_way: {
    kind: 'gauge',
    help: 'Deliveries in this process that are being sent.',
    labels: { destination },
  },
  tributary_destination_oldest_waiting_seconds: {
    kind: 'gauge',
    help: 'For how long the oldest of those waits.',
    labels: { destination },
  },
  tributary_destination_circuits_open: {
    kind: 'gauge',
    help: 'Circuits that are open or tried out: 1, or how many of `other`.',
    labels: { destination },
  },
  tributary_destination_turns_total: {
    kind: 'counter',
    help: 'Destinations that turned.',
    labels: { state: 'bad, well' },
  },
  tributary_destination_notices_total: {
    kind: 'counter',
    help: 'Notices of that.',
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

export type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
export type HistogramName = NameOf<'histogram'>;

/** The labels that a figure is told with. */
export type LabelsOf<Name extends keyof typeof METRICS> = (typeof METRICS)[Name] extends {
  readonly labels: infer Said;
}
  ? { readonly [Label in keyof Said]: string }
  : Readonly<Record<string, never>>;
