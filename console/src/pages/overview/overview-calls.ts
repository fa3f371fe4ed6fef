import { queryOptions } from '@tanstack/react-query';
import { api, dataOf, pageOf, type Schemas } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import type { Environment } from '../../shared/event-fields.ts';
import { needsAttention, TROUBLED, worstFirst } from '../destinations/destination-status.ts';
import type { Measure, Range } from './search.ts';

export type FunnelCounts = Schemas['FunnelCounts'];
export type FunnelGroup = Schemas['FunnelGroup'];
export type DestinationHealth = Schemas['DestinationHealth'];

export const RANGE_HOURS: Readonly<Record<Range, number>> = { '24h': 24, '7d': 168, '30d': 720 };
const HOUR_MS = 3_600_000;
/** Hours of events that are read for each source. */
const SOURCE_HOURS = 48;
/** Maximum number of sources: those with the most events. */
const MAX_SOURCES = 20;
/** Maximum number of contracts: those changed last. */
const MAX_CONTRACTS = 100;
export const MAX_DESTINATIONS = 8;
/** Maximum number of destinations in trouble and paused ones. */
const MAX_TROUBLED = 100;
const MAX_GROUPS = 20;

/** Poll intervals, ms. */
const NOW_MS = 5_000;
const SOON_MS = 15_000;
const LATER_MS = 60_000;

interface Scope {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
}

const environmentOf = ({ environment }: Scope) => environment && { environment };
const hoursAgo = (hours: number) => new Date(Date.now() - hours * HOUR_MS).toISOString();

/** Received events minute by minute, of the last hour. */
export function minutesQuery(scope: Scope) {
  return queryOptions({
    queryKey: ['funnel', scope.workspaceId, 'minutes', scope.environment],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/funnel', {
          params: {
            ...workspacePath(scope.workspaceId),
            query: { from: hoursAgo(1), interval: 'minute', ...environmentOf(scope) },
          },
          signal,
        }),
      ),
    refetchInterval: NOW_MS,
  });
}

export function funnelQuery(scope: Scope, range: Range) {
  return queryOptions({
    queryKey: ['funnel', scope.workspaceId, range, scope.environment],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/funnel', {
          params: {
            ...workspacePath(scope.workspaceId),
            query: { from: hoursAgo(RANGE_HOURS[range]), ...environmentOf(scope) },
          },
          signal,
        }),
      ),
    refetchInterval: SOON_MS,
  });
}

/** Received events of each source, hour by hour. */
export function sourcesQuery(scope: Scope) {
  return queryOptions({
    queryKey: ['funnel', scope.workspaceId, 'sources', scope.environment],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/funnel', {
          params: {
            ...workspacePath(scope.workspaceId),
            query: {
              from: hoursAgo(SOURCE_HOURS),
              interval: 'hour',
              group_by: 'source',
              limit: MAX_SOURCES,
              ...environmentOf(scope),
            },
          },
          signal,
        }),
      ),
    refetchInterval: LATER_MS,
  });
}

export function samplesQuery(scope: Scope, range: Range, measure: Measure, reason: string | undefined) {
  return queryOptions({
    queryKey: ['funnel', scope.workspaceId, 'samples', range, scope.environment, measure, reason],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/funnel/samples', {
          params: {
            ...workspacePath(scope.workspaceId),
            query: {
              from: hoursAgo(RANGE_HOURS[range]),
              measure,
              limit: 50,
              ...(reason && { reason }),
              ...environmentOf(scope),
            },
          },
          signal,
        }),
      ),
  });
}

export function volumeQuery(scope: Scope, range: Range) {
  return queryOptions({
    queryKey: ['volume', scope.workspaceId, range, scope.environment],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-volume', {
          params: {
            ...workspacePath(scope.workspaceId),
            query: { hours: RANGE_HOURS[range], ...environmentOf(scope) },
          },
          signal,
        }),
      ),
    refetchInterval: SOON_MS,
  });
}

export function storageQuery(workspaceId: string) {
  return queryOptions({
    queryKey: ['storage', workspaceId],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/storage', { params: workspacePath(workspaceId), signal }),
      ),
    refetchInterval: SOON_MS,
  });
}

/** Destinations in trouble first, then others by name. */
export function healthQuery(workspaceId: string) {
  const read = (query: { readonly state?: string; readonly count?: 'true'; readonly limit: number }) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/destinations/health', {
        params: { ...workspacePath(workspaceId), query: { sort: 'name', ...query } },
      }),
    );
  return queryOptions({
    queryKey: ['destinations', workspaceId, 'overview'],
    queryFn: async () => {
      const [candidates, all] = await Promise.all([
        read({ state: [...TROUBLED, 'paused'].join(','), limit: MAX_TROUBLED }),
        read({ count: 'true', limit: MAX_DESTINATIONS }),
      ]);
      const troubled = worstFirst(candidates.items.filter(needsAttention));
      const others = all.items.filter(({ id }) => !troubled.some((one) => one.id === id));
      return {
        troubled,
        shown: [...troubled, ...worstFirst(others)].slice(0, MAX_DESTINATIONS),
        total: all.total ?? String(all.items.length),
      };
    },
    refetchInterval: SOON_MS,
  });
}

/** Dead deliveries grouped by failure. */
export function deadQuery(workspaceId: string) {
  return queryOptions({
    queryKey: ['deliveries', workspaceId, 'dead groups'],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/deliveries/groups', {
          params: { ...workspacePath(workspaceId), query: { status: 'dead', limit: MAX_GROUPS } },
        }),
      ),
    refetchInterval: SOON_MS,
  });
}

/** Violations of the contracts that were changed last. */
export function violationsQuery(scope: Scope, range: Range) {
  return queryOptions({
    queryKey: ['violations', scope.workspaceId, range, scope.environment],
    queryFn: async () => {
      const contracts = await pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-contracts', {
          params: {
            ...workspacePath(scope.workspaceId),
            query: { limit: MAX_CONTRACTS, status: 'active', sort: '-updated_at' },
          },
        }),
      );
      const ids = contracts.items.map(({ id }) => id).join(',');
      const counts =
        ids === ''
          ? []
          : await dataOf(
              api.GET('/api/v1/workspaces/{workspaceId}/event-contracts/violations/hourly', {
                params: {
                  ...workspacePath(scope.workspaceId),
                  query: { ids, hours: RANGE_HOURS[range], ...environmentOf(scope) },
                },
              }),
            );
      const totals = new Map(counts.map(({ contract_id, total }) => [contract_id, total]));
      return {
        contracts: contracts.items
          .map((contract) => ({ contract, violations: totals.get(contract.id) ?? 0 }))
          .sort((left, right) => right.violations - left.violations),
        hasMore: contracts.nextCursor !== undefined,
      };
    },
    refetchInterval: LATER_MS,
  });
}

/** Whether no write key of the workspace was ever used, and whether it has an active one. */
export function isUnusedQuery(workspaceId: string) {
  return queryOptions({
    queryKey: ['write keys', workspaceId, 'unused'],
    queryFn: async () => {
      const keys = await pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-keys', {
          params: { ...workspacePath(workspaceId), query: { limit: 100 } },
        }),
      );
      return {
        isUnused: keys.items.every(({ last_used_at }) => last_used_at === null),
        hasKey: keys.items.some(({ status }) => status === 'active'),
      };
    },
    refetchInterval: ({ state }) => (state.data?.isUnused === false ? false : NOW_MS),
  });
}
