import { api, dataOf, type Schemas } from '../../../api/client.ts';
import { workspacePath } from '../../../frame/workspace.tsx';
import { destinationPath } from '../queries.ts';

/** What an event becomes by settings that are not saved. */
export function previewDraft(
  workspaceId: string,
  type: string,
  body: Schemas['TypePreviewBody'],
  signal: AbortSignal,
): Promise<readonly Schemas['SubscriptionPreview'][]> {
  const { path, header } = workspacePath(workspaceId);
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/destination-types/{type}/preview', {
      params: { path: { ...path, type }, header },
      body,
      signal,
    }),
  );
}

/** Sends an event to a stored destination. */
export function sendEvent(
  workspaceId: string,
  destinationId: string,
  body: Schemas['DestinationTrialBody'],
): Promise<Schemas['DestinationTrial']> {
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/destinations/{destinationId}/test', {
      params: destinationPath(workspaceId, destinationId),
      body,
    }),
  );
}
