import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type Clock,
  countedName,
  ENVIRONMENTS,
  EVENT_TYPES,
  FUNNEL_DIMENSIONS,
  FUNNEL_INTERVALS,
  FUNNEL_MEASURES,
  type FunnelDimension,
  type FunnelFilter,
  type FunnelInterval,
  funnelKeptMs,
  funnelStepMs,
  iso,
  type SystemSnapshot,
  type SystemView,
  Unavailable,
} from '@tributary/core';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { closed, errorAnswers, oneOf, pathOf } from '../../resources/schemas.ts';
import { type IntegerRule, integerText, parseInteger, parseTime, timeText } from '../../resources/values.ts';
import { funnelAnswer, presentBehind, presentGroups, presentSums, samplesAnswer } from './funnel-resource.ts';

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
  source: Type.Optional(Type.String({ description: 'The id of a source.' })),
  key: Type.Optional(Type.String({ description: 'The id of a write key.' })),
  type: Type.Optional(oneOf(EVENT_TYPES)),
  name: Type.Optional(
    Type.String({
      description: 'The name of a track or page event, or `(other)`.',
      examples: ['Order Placed'],
    }),
  ),
  rule: Type.Optional(Type.String({ description: 'The id of a rule: counts from `matched` on.' })),
  destination: Type.Optional(
    Type.String({ description: 'The id of a destination: counts from `matched` on.' }),
  ),
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
  measure: oneOf(FUNNEL_MEASURES),
  reason: Type.Optional(
    Type.String({
      description: 'As in `reasons`; of `rejected` the id of the contract and the kind, divided by `/`.',
      examples: ['expired'],
    }),
  ),
  limit: integerText(SAMPLES, 'Message ids at most.'),
});

/** `GET /workspaces/:workspaceId/funnel`: counts of events by outcome. */
export const funnelRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  { funnel, clock, system },
) => {
  app.get(
    '/workspaces/:workspaceId/funnel',
    {
      config: { operation: 'funnel.read' },
      schema: {
        operationId: 'readFunnel',
        summary: 'Count events by outcome',
        description:
          'Events by the time they were received, from received to delivered, with what left at each step and why. `from` and `to` are extended to whole intervals.',
        params: pathOf(),
        querystring: funnelQuery,
        response: { 200: funnelAnswer, ...errorAnswers },
      },
    },
    async ({ query, workspace }, reply) => {
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
        funnel.read({ ...asked, groupBy: isByName ? [] : groupBy }),
        stagesOf(system),
      ]);
      // A thousand names times thirty days would take seconds: of these there are totals alone.
      const groups = isByName ? await funnel.read({ ...asked, groupBy, summed: true }) : rows;
      return reply.code(200).send({
        from: iso(whole.from),
        to: iso(whole.to),
        interval,
        ...presentSums(rows),
        ...(groupBy.length === 0 ? {} : presentGroups(groups, groupBy, limit, isByName)),
        ...presentBehind(stages),
      });
    },
  );

  app.get(
    '/workspaces/:workspaceId/funnel/samples',
    {
      config: { operation: 'funnel.read' },
      schema: {
        operationId: 'listFunnelSamples',
        summary: 'List message ids behind a count',
        description:
          'The last ten of each hour, source, key, type, name, rule and destination are kept, for eight days. The trace of an event is found by its message id.',
        params: pathOf(),
        querystring: samplesQuery,
        response: { 200: samplesAnswer, ...errorAnswers },
      },
    },
    async ({ query, workspace }, reply) => {
      const limit = parseInteger(query.limit, SAMPLES);
      const { from, to } = wholeIntervals(readRange(query, clock), 'hour');
      const oldest = wholeIntervals({ from: clock() - funnelKeptMs('samples'), to }, 'hour').from;
      const { measure, reason } = query;
      const message_ids = await funnel.samples({
        workspaceId: workspace.id,
        from: Math.max(from, oldest),
        to,
        filter: filterOf(query),
        measure,
        ...(reason === undefined ? {} : { reason }),
        limit,
      });
      return reply.code(200).send({ message_ids });
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
  const ms = funnelStepMs(interval);
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
