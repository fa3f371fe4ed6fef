import { queryOptions } from '@tanstack/react-query';
import { api, dataOf, type Schemas } from '../../api/client.ts';
import { ApiError } from '../../api/errors.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import type { EventSearch, RecentSearch } from './search.ts';

export type EventTrace = Schemas['Whereabouts'];
export type TracedRule = Schemas['WhereaboutsRule'];
export type TracedDelivery = Schemas['WhereaboutsDelivery'];
export type TracedLoad = Schemas['WhereaboutsLoad'];

/** Poll intervals of a trace, ms: `SOON_MS` for the first `SOON_TIMES` answers, then `LATER_MS`. */
const SOON_MS = 2_000;
const LATER_MS = 15_000;
const SOON_TIMES = 30;

interface TraceOptions {
  readonly workspaceId: string;
  readonly messageId: string;
  readonly search: Omit<EventSearch, 'delivery'>;
  /** Poll although nothing seems to be under way: the result of a redrive takes a while. */
  readonly isWatched: boolean;
}

/** The trace of an event. Polled while the event is not found or is under way. */
export function traceQuery({ workspaceId, messageId, search, isWatched }: TraceOptions) {
  const { environment, around } = search;
  return queryOptions({
    queryKey: ['event', workspaceId, messageId, { environment, around }],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/events/{messageId}', {
          params: {
            path: { workspaceId, messageId },
            header: { 'X-Workspace-ID': workspaceId },
            query: {
              ...(environment && { environment }),
              ...(around && { around }),
            },
          },
          signal,
        }),
      ),
    refetchInterval: ({ state: { data, error, dataUpdateCount, errorUpdateCount } }) => {
      const isOpen = isNotFound(error) || (error === null && data?.status === 'under_way') || isWatched;
      if (!isOpen) return false;
      return dataUpdateCount + errorUpdateCount < SOON_TIMES || isWatched ? SOON_MS : LATER_MS;
    },
  });
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 404;
}

export const RECENT_LIMIT = 50;

export function recentEventsQuery(workspaceId: string, { type, name, environment, outcome }: RecentSearch) {
  return queryOptions({
    queryKey: ['recent-events', workspaceId, { type, name, environment, outcome }],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/recent-events', {
          params: {
            ...workspacePath(workspaceId),
            query: {
              limit: RECENT_LIMIT,
              ...(type && { event_type: type }),
              ...(name && { event_name: name }),
              ...(environment && { environment }),
              ...(outcome && { outcome }),
            },
          },
          signal,
        }),
      ),
  });
}
