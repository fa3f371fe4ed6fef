import { api, dataOf, pageOf, type Schemas, versionedOf } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';

const ALL = '/api/v1/workspaces/{workspaceId}/event-forwarding-rules';
const ONE = `${ALL}/{ruleId}` as const;

export function rulePath(workspaceId: string, ruleId: string) {
  const { path, header } = workspacePath(workspaceId);
  return { path: { ...path, ruleId }, header };
}

export function readRule(workspaceId: string, ruleId: string) {
  return versionedOf(api.GET(ONE, { params: rulePath(workspaceId, ruleId) }));
}

export const ruleQuery = (workspaceId: string, ruleId: string) => ({
  queryKey: ['rule', workspaceId, ruleId],
  queryFn: () => readRule(workspaceId, ruleId),
});

export function createRule(workspaceId: string, body: Schemas['RuleBody']) {
  return dataOf(api.POST(ALL, { params: workspacePath(workspaceId), body }));
}

export function replaceRule(workspaceId: string, ruleId: string, etag: string, body: Schemas['RuleBody']) {
  const { path, header } = rulePath(workspaceId, ruleId);
  return versionedOf(api.PUT(ONE, { params: { path, header: { ...header, 'If-Match': etag } }, body }));
}

export function deleteRule(workspaceId: string, ruleId: string, etag: string) {
  const { path, header } = rulePath(workspaceId, ruleId);
  return dataOf(api.DELETE(ONE, { params: { path, header: { ...header, 'If-Match': etag } } }));
}

/** The recent events that a selection and a filter would take. */
export function dryRun(workspaceId: string, body: Schemas['RuleDryRunBody'], signal: AbortSignal) {
  return dataOf(api.POST(`${ALL}/dry-run`, { params: workspacePath(workspaceId), body, signal }));
}

/** The verdict of every rule for an event. */
export function tryRules(workspaceId: string, body: Schemas['RuleTrialBody']) {
  return dataOf(api.POST(`${ALL}/test`, { params: workspacePath(workspaceId), body }));
}

/** Active transformations by name: those that an enabled rule may apply. */
export const transformationsQuery = (workspaceId: string, q: string) => ({
  queryKey: ['transformations', workspaceId, 'select', q],
  queryFn: () =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-transformations', {
        params: {
          ...workspacePath(workspaceId),
          query: { limit: 50, sort: 'name', status: 'active', ...(q === '' ? {} : { q }) },
        },
      }),
    ),
});

const VOLUME_HOURS = 168;

/** Names and types of a week's accepted events, with their number. */
export const eventVolumeQuery = (workspaceId: string) => ({
  queryKey: ['event-volume', workspaceId, VOLUME_HOURS],
  queryFn: () =>
    dataOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-volume', {
        params: { ...workspacePath(workspaceId), query: { hours: VOLUME_HOURS } },
      }),
    ),
  staleTime: 60_000,
});
