import {
  DEAD_CAUSES,
  FUNNEL_DIMENSIONS,
  FUNNEL_INTERVALS,
  FUNNEL_MEASURES,
  type FunnelDimension,
  type FunnelLatencies,
  type FunnelMeasure,
  type FunnelRow,
  funnelLatencyQuantile,
  iso,
  type SystemSnapshot,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { listOf, oneOf, time } from '../../resources/schemas.ts';

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

export const funnelAnswer = Type.Object(
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
    left_out: Type.Optional(Type.Integer({ description: 'Groups beyond `limit`; `totals` has them.' })),
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

export const samplesAnswer = Type.Object(
  { message_ids: listOf(Type.String(), 'Newest hour first.') },
  { title: 'FunnelSamples', examples: [{ message_ids: ['order-8841'] }] },
);

/** The stages that are behind, if there are any. */
export function presentBehind(stages: SystemSnapshot['stages']): Pick<Static<typeof funnelAnswer>, 'behind'> {
  const behind = stages.flatMap(({ stage, load: { lagSeconds = 0 } }) =>
    lagSeconds > BEHIND_AFTER_S ? [{ stage, seconds: Math.round(lagSeconds) }] : [],
  );
  return behind.length === 0 ? {} : { behind };
}

/** Totals and series of rows. */
export function presentSums(rows: readonly FunnelRow[]) {
  const intervals = Map.groupBy(rows, ({ start }) => start);
  return {
    totals: presentCounts(rows),
    series: [...intervals].map(([start, ofInterval]) => ({
      start: iso(start),
      counts: presentCounts(ofInterval),
    })),
  };
}

/** The largest groups of rows. */
export function presentGroups(
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
