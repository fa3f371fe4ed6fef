import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Clock,
  countedName,
  DEAD_CAUSES,
  documentKeptMs,
  documentStepMs,
  ENVIRONMENTS,
  EVENT_TYPES,
  FUNNEL_DIMENSIONS,
  FUNNEL_INTERVALS,
  FUNNEL_MEASURES,
  type FunnelDimension,
  type FunnelFilter,
  type FunnelInterval,
  type FunnelLatencies,
  type FunnelMeasure,
  type FunnelRow,
  funnelLatencyQuantile,
  iso,
  type SystemSnapshot,
  type SystemView,
  Unavailable,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { invalidRequest } from '../errors/api-error.ts';
import {
  closed,
  type IntegerRule,
  integer,
  integerText,
  listOf,
  oneOf,
  operation,
  parseInteger,
  parseTime,
  string,
  time,
  timeText,
} from '../resources/schemas.ts';

/** A stage is behind if its oldest record is older than this, s. */
const BEHIND_AFTER_S = 60;

const latency = Type.Object(
  {
    deliveries: Type.Integer(),
    p50_ms: Type.Number(),
    p95_ms: Type.Number(),
    p99_ms: Type.Number(),
  },
  {
    title: 'FunnelLatency',
    description:
      'From received to delivered, within 4 %; without replays and redrives. Absent without deliveries.',
  },
);

const reasons = listOf(
  Type.Object(
    {
      measure: oneOf(FUNNEL_MEASURES),
      reason: Type.String({
        description: `Of \`dead\`: ${DEAD_CAUSES.join(', ')}. Of \`rejected\`: the id of the contract and the kind of violation, divided by \`/\`.`,
        examples: ['expired'],
      }),
      count: Type.Integer(),
    },
    { title: 'FunnelReason' },
  ),
  'Of the measures that have reasons.',
);

const measureFields = Object.fromEntries(
  FUNNEL_MEASURES.map((measure) => [measure, Type.Optional(Type.Integer())]),
) as Record<FunnelMeasure, ReturnType<typeof Type.Optional<ReturnType<typeof Type.Integer>>>>;

const funnelCounts = Type.Object(
  { ...measureFields, reasons: Type.Optional(reasons), latency: Type.Optional(latency) },
  {
    title: 'FunnelCounts',
    description: 'What each number counts: docs/reference/funnel-numbers.md. Absent: 0.',
  },
);

type Counts = Static<typeof funnelCounts>;

const series = listOf(
  Type.Object({ start: time, counts: funnelCounts }, { title: 'FunnelInterval' }),
  'Oldest first; intervals without counts are left out.',
);

const groupFields = Object.fromEntries(
  FUNNEL_DIMENSIONS.map((dimension) => [dimension, Type.Optional(Type.String())]),
) as Record<FunnelDimension, ReturnType<typeof Type.Optional<ReturnType<typeof Type.String>>>>;

const funnelAnswer = Type.Object(
  {
    from: time,
    to: time,
    interval: oneOf(FUNNEL_INTERVALS),
    totals: funnelCounts,
    series,
    groups: Type.Optional(
      listOf(
        Type.Object(
          { group: Type.Object(groupFields), totals: funnelCounts, series: Type.Optional(series) },
          { title: 'FunnelGroup' },
        ),
        'With `group_by`: the largest groups; without `series` where all names are grouped.',
      ),
    ),
    left_out: Type.Optional(integer('Groups beyond `limit`; `totals` has them.')),
    behind: Type.Optional(
      listOf(
        Type.Object(
          { stage: Type.String({ examples: ['funnel'] }), seconds: Type.Integer() },
          { title: 'StageBehind' },
        ),
        `Stages of the installation that are stopped or too slow, with the age of their oldest record, from ${BEHIND_AFTER_S} s: what waits before them is not counted yet. Absent: none, or it is unknown.`,
      ),
    ),
  },
  {
    title: 'Funnel',
    examples: [
      {
        from: '2026-03-01T00:00:00.000Z',
        to: '2026-03-01T01:00:00.000Z',
        interval: 'hour',
        totals: {
          received: 120,
          duplicate: 3,
          accepted: 117,
          matched: 117,
          passed: 117,
          created: 117,
          delivered_first: 116,
          dead: 1,
          reasons: [{ measure: 'dead', reason: 'expired', count: 1 }],
          latency: { deliveries: 116, p50_ms: 41, p95_ms: 130, p99_ms: 420 },
        },
        series: [],
      },
    ],
  },
);

const samplesAnswer = Type.Object(
  { message_ids: listOf(Type.String(), 'Newest hour first.') },
  { title: 'FunnelSamples', examples: [{ message_ids: ['order-8841'] }] },
);

/** The stages that are behind, if there are any. */
function presentBehind(stages: SystemSnapshot['stages']): Pick<Static<typeof funnelAnswer>, 'behind'> {
  const behind = stages.flatMap(({ stage, load: { lagSeconds = 0 } }) =>
    lagSeconds > BEHIND_AFTER_S ? [{ stage, seconds: Math.round(lagSeconds) }] : [],
  );
  return behind.length === 0 ? {} : { behind };
}

function presentSums(rows: readonly FunnelRow[]) {
  const intervals = Map.groupBy(rows, ({ start }) => start);
  return {
    totals: presentCounts(rows),
    series: [...intervals].map(([start, ofInterval]) => ({
      start: iso(start),
      counts: presentCounts(ofInterval),
    })),
  };
}

function presentGroups(
  rows: readonly FunnelRow[],
  groupBy: readonly FunnelDimension[],
  limit: number,
  totalsAlone: boolean,
) {
  const keyOf = ({ group }: FunnelRow) => groupBy.map((dimension) => group[dimension]).join('\n');
  const groups = [...Map.groupBy(rows, keyOf).values()]
    .map((ofGroup) => ({ ofGroup, size: sizeOf(ofGroup) }))
    .sort((a, b) => b.size - a.size);
  return {
    groups: groups.slice(0, limit).map(({ ofGroup }) => ({
      group: ofGroup[0]?.group ?? {},
      ...(totalsAlone ? { totals: presentCounts(ofGroup) } : presentSums(ofGroup)),
    })),
    left_out: Math.max(0, groups.length - limit),
  };
}

/** Groups are ranked by the largest of their counts. */
function sizeOf(rows: readonly FunnelRow[]): number {
  const sums = new Map<string, number>();
  for (const { counts } of rows)
    for (const [measure, count] of Object.entries(counts))
      sums.set(measure, (sums.get(measure) ?? 0) + count);
  return Math.max(0, ...sums.values());
}

function presentCounts(rows: readonly FunnelRow[]): Counts {
  const sums: Partial<Record<FunnelMeasure, number>> = {};
  const byReason = new Map<string, number>();
  const latencies: Record<string, number> = {};
  for (const row of rows) {
    for (const [text, count] of Object.entries(row.counts)) {
      const measure = measureOf(text);
      sums[measure] = (sums[measure] ?? 0) + count;
      if (text !== measure) byReason.set(text, (byReason.get(text) ?? 0) + count);
    }
    for (const [bucket, count] of Object.entries(row.latencies))
      latencies[bucket] = (latencies[bucket] ?? 0) + count;
  }
  const ofReasons = [...byReason].map(([text, count]) => {
    const measure = measureOf(text);
    return { measure, reason: text.slice(measure.length + 1), count };
  });
  return {
    ...sums,
    ...(ofReasons.length === 0 ? {} : { reasons: ofReasons.sort((a, b) => b.count - a.count) }),
    ...presentLatency(latencies),
  };
}

function measureOf(text: string): FunnelMeasure {
  const slash = text.indexOf('/');
  return (slash === -1 ? text : text.slice(0, slash)) as FunnelMeasure;
}

function presentLatency(latencies: FunnelLatencies): Pick<Counts, 'latency'> {
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => funnelLatencyQuantile(latencies, share));
  if (p50 === undefined || p95 === undefined || p99 === undefined) return {};
  const deliveries = Object.values(latencies).reduce((sum, count) => sum + count, 0);
  return { latency: { deliveries, p50_ms: p50, p95_ms: p95, p99_ms: p99 } };
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** How far a query with this interval reaches; by name a document for each name is read of each interval. */
const MAX_RANGE_MS: Readonly<Record<FunnelInterval, number>> = {
  minute: 2 * HOUR_MS,
  hour: 31 * DAY_MS,
  day: 32 * DAY_MS,
};
const MAX_HOURS_BY_NAME_MS = 2 * DAY_MS;
const DEFAULT_RANGE_MS = DAY_MS;

/** How long an answer waits for the state of the stages, ms. */
const STAGES_WITHIN_MS = 1_000;

const GROUPS: IntegerRule = { name: 'limit', min: 1, max: 1_000, fallback: 100 };
const SAMPLES: IntegerRule = { name: 'limit', min: 1, max: 100, fallback: 10 };
const MAX_DIMENSIONS = 3;

const rangeQuery = {
  from: Type.Optional(timeText('Received then or later. Default: a day before `to`.')),
  to: Type.Optional(timeText('Received before then. Default: now.')),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
  source: Type.Optional(string('The id of a source.')),
  key: Type.Optional(string('The id of a write key.')),
  type: Type.Optional(oneOf(EVENT_TYPES)),
  name: Type.Optional(
    Type.String({
      description: 'The name of a track event, page or screen, or `(other)`.',
      examples: ['Order Placed'],
    }),
  ),
  rule: Type.Optional(string('The id of a rule: counts from `matched` on.')),
  destination: Type.Optional(string('The id of a destination: counts from `matched` on.')),
};

const funnelQuery = closed({
  ...rangeQuery,
  interval: Type.Optional(
    oneOf(FUNNEL_INTERVALS, 'Default: the shortest that suits the range. Minutes are kept for two hours.'),
  ),
  group_by: Type.Optional(
    Type.String({
      description: `Up to ${MAX_DIMENSIONS} of ${FUNNEL_DIMENSIONS.join(', ')}, divided by commas.`,
      examples: ['type,name'],
    }),
  ),
  limit: integerText(GROUPS, 'Groups at most, the largest first.'),
});

const samplesQuery = closed({
  ...rangeQuery,
  measure: { ...oneOf(FUNNEL_MEASURES), examples: ['received'] },
  reason: Type.Optional(
    Type.String({
      description: 'As in `reasons`; of `rejected` the id of the contract and the kind, divided by `/`.',
      examples: ['expired'],
    }),
  ),
  limit: integerText(SAMPLES, 'Message ids at most.'),
});

/** `GET /workspaces/:workspaceId/funnel`: counts of events by outcome. */
export const funnelRoutes: Routes = async (app, { counters, clock, system }) => {
  app.get(
    '/workspaces/:workspaceId/funnel',
    operation('funnel.read', 'readFunnel', 'Count events by outcome', {
      description:
        'Events by the time they were received, from received to delivered, with what left at each step and why. `from` and `to` are extended to whole intervals.',
      querystring: funnelQuery,
      response: { 200: funnelAnswer },
    }),
    async ({ query, workspace }) => {
      const groupBy = readDimensions(query.group_by);
      const limit = parseInteger(query.limit, GROUPS);
      const filter = filterOf(query);
      const isByName = groupBy.includes('name') && filter.name === undefined;
      const range = readRange(query, clock);
      const interval = query.interval ?? suitingInterval(range, isByName, clock());
      const whole = wholeIntervals(range, interval);
      checkRange(whole, interval, isByName);
      const asked = { workspaceId: workspace.id, interval, ...whole, filter };
      const [rows, stages] = await Promise.all([
        counters.funnel({ ...asked, groupBy: isByName ? [] : groupBy }),
        stagesOf(system),
      ]);
      // A thousand names times thirty days would take seconds: of these there are totals alone.
      const groups = isByName ? await counters.funnel({ ...asked, groupBy, summed: true }) : rows;
      return {
        from: iso(whole.from),
        to: iso(whole.to),
        interval,
        ...presentSums(rows),
        ...(groupBy.length === 0 ? {} : presentGroups(groups, groupBy, limit, isByName)),
        ...presentBehind(stages),
      };
    },
  );

  app.get(
    '/workspaces/:workspaceId/funnel/samples',
    operation('funnel.read', 'listFunnelSamples', 'List message ids behind a count', {
      description:
        'The last ten of each hour, source, key, type, name, rule and destination are kept, for eight days. The trace of an event is found by its message id.',
      querystring: samplesQuery,
      response: { 200: samplesAnswer },
    }),
    async ({ query, workspace }) => {
      const limit = parseInteger(query.limit, SAMPLES);
      const { from, to } = wholeIntervals(readRange(query, clock), 'hour');
      const oldest = wholeIntervals({ from: clock() - documentKeptMs('samples'), to }, 'hour').from;
      const { measure, reason } = query;
      const message_ids = await counters.samples({
        workspaceId: workspace.id,
        from: Math.max(from, oldest),
        to,
        filter: filterOf(query),
        measure,
        ...(reason === undefined ? {} : { reason }),
        limit,
      });
      return { message_ids };
    },
  );
};

interface Range {
  readonly from: number;
  readonly to: number;
}

function readRange(query: { readonly from?: string; readonly to?: string }, clock: Clock): Range {
  const to = parseTime('to', query.to) ?? clock();
  const from = parseTime('from', query.from) ?? to - DEFAULT_RANGE_MS;
  if (from >= to) throw invalidRequest({ path: 'from', message: 'must be before `to`' });
  return { from, to };
}

function suitingInterval({ from, to }: Range, isByName: boolean, now: number): FunnelInterval {
  const ms = to - from;
  if (ms <= MAX_RANGE_MS.minute / 2 && from > now - MAX_RANGE_MS.minute) return 'minute';
  return ms <= (isByName ? MAX_HOURS_BY_NAME_MS - HOUR_MS : 7 * DAY_MS) ? 'hour' : 'day';
}

function wholeIntervals({ from, to }: Range, interval: FunnelInterval): Range {
  const ms = documentStepMs(interval);
  return { from: Math.floor(from / ms) * ms, to: Math.ceil(to / ms) * ms };
}

function checkRange({ from, to }: Range, interval: FunnelInterval, isByName: boolean): void {
  const longest = isByName && interval === 'hour' ? MAX_HOURS_BY_NAME_MS : MAX_RANGE_MS[interval];
  if (to - from <= longest) return;
  const most = longest >= DAY_MS ? `${longest / DAY_MS} days` : `${longest / HOUR_MS} hours`;
  const what = isByName ? `${interval}s by name` : `${interval}s`;
  throw invalidRequest({ path: 'from', message: `must be at most ${most} before \`to\` for ${what}` });
}

/** None where the log does not answer in time, which is no reason to withhold the counts. */
function stagesOf(system: SystemView): Promise<SystemSnapshot['stages']> {
  const known = system.read().then(
    ({ stages }) => stages,
    (error: unknown) => {
      if (error instanceof Unavailable) return [];
      throw error;
    },
  );
  return Promise.race([known, sleep(STAGES_WITHIN_MS, [], { ref: false })]);
}

function readDimensions(text: string | undefined): readonly FunnelDimension[] {
  if (text === undefined || text === '') return [];
  const words = [...new Set(text.split(','))];
  const dimensions = words.flatMap((word) => FUNNEL_DIMENSIONS.filter((known) => known === word));
  if (dimensions.length < words.length || dimensions.length > MAX_DIMENSIONS)
    throw invalidRequest({
      path: 'group_by',
      message: `must be up to ${MAX_DIMENSIONS} of ${FUNNEL_DIMENSIONS.join(', ')}`,
    });
  return dimensions;
}

function filterOf(query: Readonly<Partial<Record<FunnelDimension, string>>>): FunnelFilter {
  const filter: Partial<Record<FunnelDimension, string>> = {};
  for (const dimension of FUNNEL_DIMENSIONS) {
    const value = query[dimension];
    if (value !== undefined) filter[dimension] = dimension === 'name' ? countedName(value) : value;
  }
  return filter;
}
