/** Values of a series, one a minute, as promtool writes them: `<first>+<step>x<times>`. */
type Values = string;
export type SeriesValues = Readonly<Record<string, Values>>;

const STEADY = '1x150';
const NONE = '0x150';
/** Ten a second. */
const BUSY = '0+600x150';

/** An installation in which nothing is wrong; each counter has counted before. */
export const HEALTHY: SeriesValues = {
  'tributary_build_info{role="gateway",version="1.0.0",instance="g"}': STEADY,
  'tributary_build_info{role="processor",version="1.0.0",instance="p"}': STEADY,
  'tributary_stage_lag_collected_timestamp_seconds{instance="g"}': '0+60x150',
  'tributary_metrics_collected_timestamp_seconds{instance="g",part="main"}': '0+60x150',
  'tributary_engine_up{engine="kafka",part="main"}': STEADY,
  'tributary_engine_up{engine="redis",part="stages"}': STEADY,
  'tributary_engine_up{engine="elasticsearch",part="stages"}': STEADY,
  'tributary_data_folder_free_bytes{instance="g"}': '45000000000x150',
  'tributary_data_folder_size_bytes{instance="g"}': '100000000000x150',
  'tributary_data_folder_reserve_bytes{instance="g"}': '1000000000x150',
  'tributary_broker_disk_free_bytes{broker="2",instance="g"}': '45000000000x150',
  'tributary_broker_disk_size_bytes{broker="2",instance="g"}': '100000000000x150',
  'tributary_broker_disk_reserve_bytes{broker="2",instance="g"}': '5000000000x150',
  'tributary_storage_over_budget{budget="bytes_per_hour",instance="g"}': NONE,
  'tributary_http_requests_total{operation="events.ingest",status="202"}': BUSY,
  'tributary_http_requests_total{operation="events.ingest",status="503"}': NONE,
  'tributary_http_requests_total{operation="events.ingest",status="429"}': NONE,
  'tributary_http_request_duration_seconds_bucket{operation="events.ingest",le="0.1"}': BUSY,
  'tributary_http_request_duration_seconds_bucket{operation="events.ingest",le="5"}': BUSY,
  'tributary_http_request_duration_seconds_bucket{operation="events.ingest",le="+Inf"}': BUSY,
  'tributary_events_unconfirmed_total{instance="g"}': '7x150',
  'tributary_events_diverted_total{stage="validate"}': '7x150',
  'tributary_events_without_topic_total{topic="events.vip"}': '7x150',
  'tributary_rate_limit_unchecked_total{instance="g"}': '7x150',
  'tributary_issuer_key_fetches_total{issuer="https://login.example",outcome="failed"}': '1x150',
  'tributary_stage_lag_records{stage="route",topic="events.accepted",partition="0",instance="p"}': '10x150',
  'tributary_stage_lag_records{stage="route",topic="events.accepted",partition="0",instance="g"}': '90x150',
  'tributary_stage_lag_records{stage="deliver.retry",topic="deliveries.retry.6h",partition="0"}':
    '900000x150',
  'tributary_stage_lag_seconds{stage="route",topic="events.accepted",partition="0"}': '1x150',
  'tributary_stage_lag_seconds{stage="deliver.retry",topic="deliveries.retry.6h",partition="0"}': '21000x150',
  'tributary_stage_members{stage="route"}': '2x150',
  'tributary_stage_wanted_processes{stage="route"}': '2x150',
  'tributary_stage_missed_records_total{stage="route",topic="events.accepted"}': '7x150',
  'tributary_stage_dead_letters_total{stage="route"}': '7x150',
  'tributary_sandbox_kills_total{reason="timeout"}': '0+1x150',
  'tributary_destination_circuits_open{destination="d1"}': NONE,
  'tributary_warehouse_seconds_since_load{destination="d1"}': '100x150',
  'tributary_warehouse_load_every_seconds{destination="d1"}': '300x150',
  'tributary_destination_health_notices_total{state="bad",channel="none"}': '7x150',
  'tributary_deliveries_total{outcome="delivered",connector="webhook"}': BUSY,
  'tributary_deliveries_total{outcome="dead",connector="webhook"}': '0+1x150',
};

export interface AlertCase {
  readonly alert: string;
  /** Series in place of the healthy ones. */
  readonly fault: SeriesValues;
  /** Minutes after the fault began at which it must not fire yet, and at which it must. */
  readonly quietAfter: number;
  readonly firesAfter: number;
}

/** The minute at which faults begin: rules that look back an hour have seen the healthy series for longer. */
const START = 90;
/** A counter that grows by so much a minute from then on. */
const grows = (step: number, before = 0) => `${before}x${START - 1} ${before}+${step}x70`;
const becomes = (before: number, after: number) => `${before}x${START - 1} ${after}x70`;
const APPEARS = `_x${START} 1x70`;
const STOPPED_CLOCK = `0+60x${START} ${60 * START}x70`;
const build = (role: string, instance: string, version = '1.0.0') =>
  `tributary_build_info{role="${role}",version="${version}",instance="${instance}"}`;
const LAG = 'tributary_stage_lag_records{stage="route",topic="events.accepted",partition="0",instance="p"}';
const LAG_AT_GATEWAY = LAG.replace('"p"', '"g"');
const AGE = 'tributary_stage_lag_seconds{stage="route",topic="events.accepted",partition="0"}';
const bucket = (le: string) =>
  `tributary_http_request_duration_seconds_bucket{operation="events.ingest",le="${le}"}`;
const requests = (status: string) =>
  `tributary_http_requests_total{operation="events.ingest",status="${status}"}`;

/** One case for each rule. */
export const CASES: readonly AlertCase[] = [
  {
    alert: 'TributaryEventsUnconfirmed',
    fault: { 'tributary_events_unconfirmed_total{instance="g"}': grows(60, 7) },
    quietAfter: 3,
    firesAfter: 10,
  },
  { alert: 'TributaryErrors', fault: { [requests('503')]: grows(60) }, quietAfter: 8, firesAfter: 15 },
  {
    alert: 'TributarySlow',
    fault: { [bucket('0.1')]: `0+600x${START} ${600 * START}x60` },
    quietAfter: 8,
    firesAfter: 15,
  },
  {
    alert: 'TributaryWorkspaceFloods',
    fault: { 'tributary_events_diverted_total{stage="validate"}': grows(60, 7) },
    quietAfter: 10,
    firesAfter: 20,
  },
  {
    alert: 'TributaryRequestsRefused',
    fault: { [requests('429')]: grows(300) },
    quietAfter: 10,
    firesAfter: 25,
  },
  {
    alert: 'TributaryStageBehind',
    fault: { [LAG]: becomes(10, 200_000), [LAG_AT_GATEWAY]: becomes(10, 210_000) },
    quietAfter: 10,
    firesAfter: 20,
  },
  { alert: 'TributaryStageOld', fault: { [AGE]: becomes(1, 1_000) }, quietAfter: 3, firesAfter: 10 },
  {
    alert: 'TributaryStageUndersized',
    fault: { 'tributary_stage_wanted_processes{stage="route"}': becomes(2, 3) },
    quietAfter: 10,
    firesAfter: 20,
  },
  {
    alert: 'TributaryLagUnknown',
    fault: { 'tributary_stage_lag_collected_timestamp_seconds{instance="g"}': STOPPED_CLOCK },
    quietAfter: 1,
    firesAfter: 6,
  },
  {
    alert: 'TributaryNoProcessor',
    fault: { [build('processor', 'p')]: `1x${START}` },
    quietAfter: 1,
    firesAfter: 10,
  },
  {
    alert: 'TributaryStageUnattended',
    fault: {
      'tributary_stage_members{stage="route"}': becomes(2, 0),
      'tributary_stage_wanted_processes{stage="route"}': '0x150',
    },
    quietAfter: 3,
    firesAfter: 10,
  },
  {
    alert: 'TributaryNoGateway',
    fault: { [build('gateway', 'g')]: `1x${START}` },
    quietAfter: 1,
    firesAfter: 10,
  },
  {
    alert: 'TributaryPartSilent',
    fault: { 'tributary_metrics_collected_timestamp_seconds{instance="g",part="main"}': STOPPED_CLOCK },
    quietAfter: 3,
    firesAfter: 10,
  },
  {
    alert: 'TributaryDiskNearlyFull',
    fault: { 'tributary_data_folder_free_bytes{instance="g"}': becomes(1_100_000_000, 900_000_000) },
    quietAfter: -2,
    firesAfter: 2,
  },
  {
    alert: 'TributaryWorkspaceOverBudget',
    fault: { 'tributary_storage_over_budget{budget="bytes_per_hour",instance="g"}': becomes(0, 1) },
    quietAfter: 1,
    firesAfter: 4,
  },
  {
    alert: 'TributaryDiskFillsUp',
    fault: {
      'tributary_data_folder_free_bytes{instance="g"}': `45000000000x${START} 45000000000-600000000x60`,
    },
    quietAfter: 30,
    firesAfter: 55,
  },
  {
    alert: 'TributaryBrokerDiskNearlyFull',
    fault: {
      'tributary_broker_disk_free_bytes{broker="2",instance="g"}': becomes(5_500_000_000, 4_900_000_000),
    },
    quietAfter: -2,
    firesAfter: 2,
  },
  {
    alert: 'TributaryBrokerDiskFillsUp',
    fault: {
      'tributary_broker_disk_free_bytes{broker="2",instance="g"}': `45000000000x${START} 45000000000-600000000x60`,
    },
    quietAfter: 30,
    firesAfter: 55,
  },
  {
    alert: 'TributaryVersionsMixed',
    fault: { [build('processor', 'q', '2.0.0')]: APPEARS },
    quietAfter: 50,
    firesAfter: 61,
  },
  {
    alert: 'TributaryKafkaDown',
    fault: { 'tributary_engine_up{engine="kafka",part="main"}': becomes(1, 0) },
    quietAfter: 1,
    firesAfter: 5,
  },
  {
    alert: 'TributaryRedisDown',
    fault: { 'tributary_engine_up{engine="redis",part="stages"}': becomes(1, 0) },
    quietAfter: 1,
    firesAfter: 5,
  },
  {
    alert: 'TributaryElasticsearchDown',
    fault: { 'tributary_engine_up{engine="elasticsearch",part="stages"}': becomes(1, 0) },
    quietAfter: 1,
    firesAfter: 5,
  },
  {
    alert: 'TributaryStageMissed',
    fault: { 'tributary_stage_missed_records_total{stage="route",topic="events.accepted"}': becomes(7, 9) },
    quietAfter: -1,
    firesAfter: 2,
  },
  {
    alert: 'TributaryStagePositionUnknown',
    fault: {
      'tributary_stage_position_unknown{stage="route",topic="events.accepted",partition="0"}': APPEARS,
    },
    quietAfter: -1,
    firesAfter: 2,
  },
  {
    alert: 'TributaryRecordsDeadLettered',
    fault: { 'tributary_stage_dead_letters_total{stage="history"}': APPEARS },
    quietAfter: -1,
    firesAfter: 2,
  },
  {
    alert: 'TributaryDestinationDown',
    fault: { 'tributary_destination_circuits_open{destination="d1"}': becomes(0, 1) },
    quietAfter: 10,
    firesAfter: 20,
  },
  {
    alert: 'TributaryWarehouseBehind',
    fault: { 'tributary_warehouse_seconds_since_load{destination="d1"}': `100x${START - 1} 100+60x70` },
    quietAfter: 5,
    firesAfter: 15,
  },
  {
    alert: 'TributaryDeliveriesOld',
    fault: {
      'tributary_stage_lag_seconds{stage="deliver.retry",topic="deliveries.retry.6h",partition="0"}': becomes(
        21_000,
        90_000,
      ),
    },
    quietAfter: 10,
    firesAfter: 20,
  },
  {
    alert: 'TributaryDeliveriesDead',
    fault: { 'tributary_deliveries_total{outcome="dead",connector="webhook"}': grows(120) },
    quietAfter: 10,
    firesAfter: 30,
  },
  {
    alert: 'TributaryTopicUndeclared',
    fault: { 'tributary_events_without_topic_total{topic="events.vip"}': grows(10, 7) },
    quietAfter: 3,
    firesAfter: 10,
  },
  {
    alert: 'TributaryIssuerSilent',
    fault: {
      'tributary_issuer_key_fetches_total{issuer="https://login.example",outcome="failed"}': grows(1),
    },
    quietAfter: 1,
    firesAfter: 10,
  },
  {
    alert: 'TributarySandboxKills',
    fault: { 'tributary_sandbox_kills_total{reason="timeout"}': grows(10) },
    quietAfter: 0,
    firesAfter: 10,
  },
  {
    alert: 'TributaryLimitsUnchecked',
    fault: { 'tributary_rate_limit_unchecked_total{instance="g"}': grows(10, 7) },
    quietAfter: 3,
    firesAfter: 10,
  },
  {
    alert: 'TributaryNoticeUndeliverable',
    fault: { 'tributary_destination_health_notices_total{state="bad",channel="none"}': becomes(7, 8) },
    quietAfter: -1,
    firesAfter: 2,
  },
];

/** The input of `promtool test rules`: exactly the alert fires, nothing else, and nothing before. */
export function promtoolTests(rules: string): object {
  const firing = (minute: number, alerts: readonly string[]) => ({
    expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
    eval_time: `${minute}m`,
    exp_samples: [...alerts].sort().map((alert) => ({ labels: `{alertname="${alert}"}`, value: 1 })),
  });
  const healthy = [{ series: HEALTHY, checks: [firing(START - 1, []), firing(150, [])] }];
  const faulty = CASES.map(({ alert, fault, quietAfter, firesAfter }) => ({
    series: { ...HEALTHY, ...fault },
    checks: [firing(START + quietAfter, []), firing(START + firesAfter, [alert])],
  }));
  return {
    rule_files: [rules],
    evaluation_interval: '1m',
    tests: [...healthy, ...faulty].map(({ series, checks }, i) => ({
      interval: '1m',
      name: CASES[i - 1]?.alert ?? 'healthy',
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: checks,
    })),
  };
}
