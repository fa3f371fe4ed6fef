import { api, dataOf, pageOf, type Schemas, type Versioned, versionedOf } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import { EVENT_TYPES, type EventType } from '../../shared/event-fields.ts';
import type { TransformationListSearch } from './search.ts';
import type { EventJson, Transformation, Trial } from './transformation-values.ts';

/** Rows of a page of the list. One call reads the runs of all of them. */
const LIST_LIMIT = 50;
const RECENT = 20;
const MAX_RULES = 100;
const WEEK_MS = 604_800_000;

export function transformationPath(workspaceId: string, transformationId: string) {
  const { path, header } = workspacePath(workspaceId);
  return { path: { ...path, transformationId }, header };
}

export function listTransformations(
  workspaceId: string,
  { q, sort, cursor, status }: TransformationListSearch,
  signal: AbortSignal,
) {
  return pageOf(
    api.GET('/api/v1/workspaces/{workspaceId}/event-transformations', {
      signal,
      params: {
        ...workspacePath(workspaceId),
        query: {
          limit: LIST_LIMIT,
          count: 'true',
          ...(q && { q }),
          ...(sort && { sort: sort as 'name' }),
          ...(cursor && { cursor }),
          ...(status && { status }),
        },
      },
    }),
  );
}

/** The results of the runs of several transformations. */
export const metricsQuery = (workspaceId: string, ids: readonly string[], hours: number) => ({
  queryKey: ['transformation-metrics', workspaceId, ids.join(','), hours],
  queryFn: async (): Promise<ReadonlyMap<string, Schemas['TransformationMetrics']>> => {
    const metrics = await dataOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-transformations/metrics', {
        params: { ...workspacePath(workspaceId), query: { ids: ids.join(','), hours } },
      }),
    );
    return new Map(metrics.map((metric) => [metric.transformation_id, metric]));
  },
  enabled: ids.length > 0,
  refetchInterval: 60_000,
});

export const transformationKey = (workspaceId: string, id: string) => ['transformation', workspaceId, id];

export function readTransformation(workspaceId: string, id: string): Promise<Versioned<Transformation>> {
  return versionedOf(
    api.GET('/api/v1/workspaces/{workspaceId}/event-transformations/{transformationId}', {
      params: transformationPath(workspaceId, id),
    }),
  );
}

export function createTransformation(
  workspaceId: string,
  body: Schemas['TransformationBody'],
): Promise<Transformation> {
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/event-transformations', {
      params: workspacePath(workspaceId),
      body,
    }),
  );
}

export function replaceTransformation(
  workspaceId: string,
  id: string,
  body: Schemas['TransformationBody'],
  etag: string,
): Promise<Versioned<Transformation>> {
  const { path, header } = transformationPath(workspaceId, id);
  return versionedOf(
    api.PUT('/api/v1/workspaces/{workspaceId}/event-transformations/{transformationId}', {
      params: { path, header: { ...header, 'If-Match': etag } },
      body,
    }),
  );
}

export function rollBack(
  workspaceId: string,
  id: string,
  version: number,
  etag: string,
): Promise<Versioned<Transformation>> {
  const { path, header } = transformationPath(workspaceId, id);
  return versionedOf(
    api.POST('/api/v1/workspaces/{workspaceId}/event-transformations/{transformationId}/rollback', {
      params: { path, header: { ...header, 'If-Match': etag } },
      body: { version },
    }),
  );
}

export async function deleteTransformation(workspaceId: string, id: string, etag: string): Promise<void> {
  const { path, header } = transformationPath(workspaceId, id);
  await api.DELETE('/api/v1/workspaces/{workspaceId}/event-transformations/{transformationId}', {
    params: { path, header: { ...header, 'If-Match': etag } },
  });
}

/** Runs a source on an event; nothing is stored or delivered. */
export function tryTransformation(
  workspaceId: string,
  id: string,
  source_code: string,
  event: EventJson,
): Promise<Trial> {
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/event-transformations/{transformationId}/test', {
      params: transformationPath(workspaceId, id),
      body: { source_code, event: { ...event } },
    }),
  );
}

/** The rules that name a transformation. */
export const usedByQuery = (workspaceId: string, id: string) => ({
  queryKey: ['rules', workspaceId, 'of-transformation', id],
  queryFn: () =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
        params: {
          ...workspacePath(workspaceId),
          query: { transformation_id: id, limit: MAX_RULES, sort: 'name' },
        },
      }),
    ),
});

/** The filter of samples: the events that the rules take, if those have a single type or a single name. */
export interface SampleFilter {
  readonly event_type?: EventType;
  readonly event_name?: string;
}

export function sampleFilterOf(rules: readonly Schemas['Rule'][]): SampleFilter {
  const types = new Set(
    rules.flatMap(({ event_types }) => (event_types.length === 0 ? EVENT_TYPES : event_types)),
  );
  const names = new Set(rules.flatMap(({ event_names }) => (event_names.length === 0 ? [''] : event_names)));
  const [type, ...otherTypes] = types;
  const [name, ...otherNames] = names;
  return {
    ...(type !== undefined && otherTypes.length === 0 && { event_type: type }),
    ...(name !== undefined && name !== '' && otherNames.length === 0 && { event_name: name }),
  };
}

/** Recently accepted events: samples for a trial. */
export const recentEventsQuery = (workspaceId: string, filter: SampleFilter | undefined) => ({
  queryKey: ['recent-events', workspaceId, 'samples', filter],
  queryFn: async (): Promise<readonly EventJson[]> => {
    const since = new Date(Date.now() - WEEK_MS).toISOString();
    const { events } = await dataOf(
      api.GET('/api/v1/workspaces/{workspaceId}/recent-events', {
        params: {
          ...workspacePath(workspaceId),
          query: { limit: RECENT, outcome: 'accepted', since, ...filter },
        },
      }),
    );
    return events;
  },
  enabled: filter !== undefined,
  // The samples stay the same while they are shown.
  staleTime: Number.POSITIVE_INFINITY,
});
