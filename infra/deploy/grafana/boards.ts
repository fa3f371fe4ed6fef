import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A query of a panel. */
export interface Query {
  readonly expr: string;
  /** Grafana's legend, e.g. `{{stage}}`. */
  readonly legend: string;
}

export interface Panel {
  readonly title: string;
  /** Grafana's name of the unit. */
  readonly unit: 'short' | 's' | 'reqps' | 'percentunit' | 'bytes' | 'cps' | 'none';
  readonly queries: readonly Query[];
  readonly description?: string;
}

export interface Board {
  readonly name: string;
  readonly title: string;
  readonly panels: readonly Panel[];
}

/** The time that rates are over: Grafana puts in one that fits the width of the graph and the scrape interval. */
const RATE = '[$__rate_interval]';
const rate = (series: string, by = '') => `sum${by && ` by (${by})`} (rate(${series}${RATE}))`;
/** Several processes report the positions of a stage; the freshest has the highest rate. */
const offsetsPerSecond = (series: string, partition: string, by: string) =>
  `sum by (${by}) (max by (${partition}) (rate(${series}${RATE})))`;
const quantile = (q: number, histogram: string, by = '') =>
  `histogram_quantile(${q}, sum by (${['le', ...(by ? [by] : [])].join(', ')}) (rate(${histogram}_bucket${RATE})))`;
const LAG =
  'sum by (stage) (min by (stage, topic, partition) (tributary_stage_lag_records{topic!~".*retry.*"}))';
const AGE = 'max by (stage) (tributary_stage_lag_seconds{topic!~".*retry.*"})';

const panel = (
  title: string,
  unit: Panel['unit'],
  expr: string,
  legend = '{{stage}}',
  description?: string,
): Panel => ({
  title,
  unit,
  queries: [{ expr, legend }],
  ...(description === undefined ? {} : { description }),
});

const RECEIVED = panel(
  'Events received',
  'cps',
  rate('tributary_events_received_total', 'environment'),
  '{{environment}}',
);
const STATUS = panel(
  'Requests by status',
  'reqps',
  rate('tributary_http_requests_total', 'status'),
  '{{status}}',
);
const OUTCOMES = panel(
  'Delivery attempts',
  'cps',
  rate('tributary_deliveries_total', 'outcome'),
  '{{outcome}}',
);
const AGE_PANEL = panel(
  'Age of the oldest record',
  's',
  AGE,
  '{{stage}}',
  'How long ago the oldest record was appended that the stage has not processed. Without retry topics, whose records wait on purpose.',
);

/** The boards, each a file `<name>.json` beside this one. */
export const BOARDS: readonly Board[] = [
  {
    name: 'overview',
    title: 'Tributary: overview',
    panels: [
      RECEIVED,
      STATUS,
      AGE_PANEL,
      panel('Lag', 'short', LAG),
      OUTCOMES,
      panel('Circuits open', 'none', 'sum(tributary_destination_circuits_open)', 'destinations'),
      panel(
        'Dead-lettered records (poison)',
        'short',
        'sum by (stage) (increase(tributary_stage_dead_letters_total[1h]))',
      ),
      panel('Processes', 'none', 'count by (role, version) (tributary_build_info)', '{{role}} {{version}}'),
    ],
  },
  {
    name: 'gateway',
    title: 'Tributary: gateway',
    panels: [
      STATUS,
      panel(
        'Requests by operation',
        'reqps',
        rate('tributary_http_requests_total', 'operation'),
        '{{operation}}',
      ),
      {
        title: 'Duration of requests with events',
        unit: 's',
        queries: [0.5, 0.99].map((q) => ({
          expr: quantile(q, 'tributary_http_request_duration_seconds').replace(
            '_bucket',
            '_bucket{operation=~"events.ingest|segment.*"}',
          ),
          legend: `p${q * 100}`,
        })),
      },
      panel(
        'Duration by operation (p99)',
        's',
        quantile(0.99, 'tributary_http_request_duration_seconds', 'operation'),
        '{{operation}}',
      ),
      panel('Dropped SDK calls', 'cps', rate('tributary_sdk_events_rejected_total', 'error'), '{{error}}'),
      panel('Open live streams', 'none', 'sum(tributary_live_streams)', 'streams'),
      panel('Event-loop delay (p99)', 's', 'nodejs_eventloop_lag_p99_seconds', '{{instance}}'),
      panel('Memory', 'bytes', 'process_resident_memory_bytes', '{{instance}}'),
      panel('Processor time', 'percentunit', `rate(process_cpu_seconds_total${RATE})`, '{{instance}}'),
    ],
  },
  {
    name: 'stages',
    title: 'Tributary: stages',
    panels: [
      panel(
        'Lag',
        'short',
        LAG,
        '{{stage}}',
        'Records that the stage has not processed. Of several processes that report a partition the lowest value is right.',
      ),
      AGE_PANEL,
      panel(
        'Arrivals',
        'cps',
        offsetsPerSecond('tributary_log_end_offset', 'topic, partition', 'topic'),
        '{{topic}}',
      ),
      panel(
        'Drained',
        'cps',
        offsetsPerSecond('tributary_stage_position', 'stage, topic, partition', 'stage'),
      ),
      panel('Time to empty', 's', 'min by (stage) (tributary_stage_time_to_empty_seconds)'),
      {
        title: 'Processes, wanted and present',
        unit: 'none',
        queries: [
          { expr: 'max by (stage) (tributary_stage_wanted_processes)', legend: '{{stage}} wanted' },
          { expr: 'min by (stage) (tributary_stage_members)', legend: '{{stage}} present' },
        ],
      },
      panel('Commits (p99)', 's', quantile(0.99, 'tributary_stage_commit_duration_seconds', 'stage')),
      panel('Validated events', 'cps', rate('tributary_events_validated_total', 'outcome'), '{{outcome}}'),
      panel('Profile events', 'cps', rate('tributary_profile_events_total', 'outcome'), '{{outcome}}'),
      panel(
        'Age of the oldest scheduled retry',
        's',
        'max by (topic) (tributary_stage_lag_seconds{topic=~".*retry.*"})',
        '{{topic}}',
      ),
    ],
  },
  {
    name: 'deliveries',
    title: 'Tributary: deliveries',
    panels: [
      OUTCOMES,
      panel('Attempts by connector', 'cps', rate('tributary_deliveries_total', 'connector'), '{{connector}}'),
      panel(
        'Requests to destinations (p99)',
        's',
        quantile(0.99, 'tributary_delivery_request_duration_seconds', 'connector'),
        '{{connector}}',
      ),
      panel(
        'Delivered, by destination',
        'cps',
        'sum by (destination) (tributary_destination_deliveries_per_second{outcome="delivered"})',
        '{{destination}}',
      ),
      panel(
        'Failed, by destination',
        'cps',
        'sum by (destination) (tributary_destination_deliveries_per_second{outcome=~"retry|dead"})',
        '{{destination}}',
      ),
      panel(
        'Queued',
        'short',
        'sum by (destination) (tributary_destination_deliveries_pending)',
        '{{destination}}',
      ),
      panel(
        'Oldest queued',
        's',
        'max by (destination) (tributary_destination_oldest_pending_seconds)',
        '{{destination}}',
      ),
      panel(
        'Circuits open',
        'none',
        'max by (destination) (tributary_destination_circuits_open)',
        '{{destination}}',
      ),
      panel(
        'Waiting for a retry',
        'short',
        'sum by (topic) (min by (topic, partition) (tributary_stage_lag_records{stage="deliver.retry"}))',
        '{{topic}}',
      ),
      panel(
        'Transformed events',
        'cps',
        rate('tributary_transformation_runs_total', 'outcome'),
        '{{outcome}}',
      ),
    ],
  },
  {
    name: 'engines',
    title: 'Tributary: engines and processes',
    panels: [
      panel(
        'Engine answers',
        'none',
        'min by (engine, part) (tributary_engine_up)',
        '{{engine}} {{part}}',
        'Absent where everything is on SQLite.',
      ),
      panel(
        'Since the last answer',
        's',
        'time() - max by (engine, part) (tributary_engine_checked_timestamp_seconds)',
        '{{engine}} {{part}}',
      ),
      panel(
        'Age of the metrics',
        's',
        'time() - tributary_metrics_collected_timestamp_seconds',
        '{{instance}} {{part}}',
      ),
      panel('Age of the lag', 's', 'time() - max(tributary_stage_lag_collected_timestamp_seconds)', 'lag'),
      panel(
        'Log growth',
        'cps',
        offsetsPerSecond('tributary_log_end_offset', 'topic, partition', 'topic'),
        '{{topic}}',
      ),
      panel(
        'Profile changes to publish',
        'short',
        'sum(tributary_profile_changes_pending)',
        'changes',
        'On SQLite only.',
      ),
      {
        title: 'Free disk space',
        unit: 'bytes',
        description:
          'Of the data folders, and of the brokers of Kafka. Below half of the reserve events are refused.',
        queries: [
          { expr: 'tributary_data_folder_free_bytes', legend: '{{instance}}' },
          { expr: 'max by (broker) (tributary_broker_disk_free_bytes)', legend: 'broker {{broker}}' },
        ],
      },
      panel('Open files', 'short', 'process_open_fds', '{{instance}}'),
      panel('Heap', 'bytes', 'nodejs_heap_size_used_bytes', '{{instance}}'),
    ],
  },
  {
    name: 'tenants',
    title: 'Tributary: tenants',
    panels: [
      RECEIVED,
      panel(
        'Events sent to a slow queue',
        'cps',
        rate('tributary_events_diverted_total', 'stage'),
        '{{stage}}',
        'Events of workspaces above their share of a stage.',
      ),
      {
        title: 'Refused requests',
        unit: 'reqps',
        queries: [
          { expr: rate('tributary_http_requests_total{status=~"401|403"}', 'status'), legend: '{{status}}' },
          { expr: rate('tributary_http_requests_total{status="429"}', 'status'), legend: '{{status}}' },
        ],
      },
      panel(
        'Transformations, by time',
        'percentunit',
        `sum by (transformation) (rate(tributary_transformation_run_duration_seconds_sum${RATE}))`,
        '{{transformation}}',
      ),
      panel(
        'Failing transformations',
        'cps',
        rate(
          'tributary_transformation_runs_total{outcome!~"ok|dropped|fanned_out"}',
          'transformation, outcome',
        ),
        '{{transformation}} {{outcome}}',
      ),
      panel(
        'Slow destinations (p99)',
        's',
        'max by (destination) (tributary_destination_attempt_quantile_seconds{quantile="0.99"})',
        '{{destination}}',
      ),
      panel(
        'Health of destinations: changes',
        'short',
        'sum by (state) (increase(tributary_destination_health_changes_total[1h]))',
        '{{state}}',
      ),
      panel('Refused addresses of destinations', 'cps', rate('tributary_egress_refused_total'), 'refused'),
    ],
  },
];

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's variable.
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };
const [WIDTH, HEIGHT] = [12, 8];

/** A board as Grafana imports it. */
export function grafanaJson({ name, title, panels }: Board): string {
  const board = {
    uid: `tributary-${name}`,
    title,
    tags: ['tributary'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    timezone: 'browser',
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    links: [
      { title: 'Tributary', type: 'dashboards', tags: ['tributary'], asDropdown: true, keepTime: true },
    ],
    templating: {
      list: [{ name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' }],
    },
    panels: panels.map(({ title: of, unit, queries, description }, i) => ({
      id: i + 1,
      type: 'timeseries',
      title: of,
      ...(description === undefined ? {} : { description }),
      datasource: DATASOURCE,
      gridPos: { x: (i % 2) * WIDTH, y: Math.floor(i / 2) * HEIGHT, w: WIDTH, h: HEIGHT },
      fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
      options: {
        legend: { displayMode: 'list', placement: 'bottom' },
        tooltip: { mode: 'multi', sort: 'desc' },
      },
      targets: queries.map(({ expr, legend }, at) => ({
        refId: String.fromCharCode(65 + at),
        datasource: DATASOURCE,
        expr,
        legendFormat: legend,
      })),
    })),
  };
  return `${JSON.stringify(board, null, 2)}\n`;
}

/** The file of a board. */
export function boardFile({ name }: Board): string {
  return fileURLToPath(new URL(`${name}.json`, import.meta.url));
}

// `npm run boards`
if (import.meta.main) for (const board of BOARDS) writeFileSync(boardFile(board), grafanaJson(board));
