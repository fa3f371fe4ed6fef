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

/** The destination as it is saved. */
export interface StoredDestination {
  readonly id: string;
  readonly etag: string;
  /** Whether the form has input that is not saved. */
  readonly isChanged: boolean;
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

/** The choices that the vendor has for a field: by the stored destination, or by settings that are not saved. */
export function fieldChoices(
  workspaceId: string,
  of:
    | { readonly destinationId: string }
    | { readonly type: string; readonly settings: Record<string, unknown> },
  body: Schemas['DynamicFieldBody'],
  signal: AbortSignal,
): Promise<Schemas['FieldChoices']> {
  if ('destinationId' in of)
    return dataOf(
      api.POST('/api/v1/workspaces/{workspaceId}/destinations/{destinationId}/dynamic-field', {
        params: destinationPath(workspaceId, of.destinationId),
        body,
        signal,
      }),
    );
  const { path, header } = workspacePath(workspaceId);
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/destination-types/{type}/dynamic-field', {
      params: { path: { ...path, type: of.type }, header },
      body: { ...body, settings: of.settings },
      signal,
    }),
  );
}

/** While one runs, the form must stay as it is saved: the run changes the mapping. */
export const HOOK_RUN = ['hook-run'];

/** Runs a hook of a saved subscription at the vendor. */
export function runHook(
  workspaceId: string,
  { id, etag }: StoredDestination,
  body: Schemas['HookBody'],
): Promise<Schemas['HookResult']> {
  const { path, header } = destinationPath(workspaceId, id);
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/destinations/{destinationId}/hook', {
      params: { path, header: { ...header, 'If-Match': etag } },
      body,
    }),
  );
}
