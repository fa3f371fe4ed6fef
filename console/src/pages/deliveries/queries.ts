import { api, dataOf, pageOf, type Schemas } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import type { BulkAction, BulkCall } from './bulk-runs.ts';
import type { DeliveriesSearch } from './search.ts';

export type Delivery = Schemas['Delivery'];
export type DeliveryGroup = Schemas['DeliveryGroup'];

const ALL = '/api/v1/workspaces/{workspaceId}/deliveries';
const ONE = `${ALL}/{deliveryId}` as const;
const PAGE_SIZE = 50;
/** Maximum number of groups; the largest come first. */
const MAX_GROUPS = 200;

export function deliveryPath(workspaceId: string, deliveryId: string) {
  const { path, header } = workspacePath(workspaceId);
  return { path: { ...path, deliveryId }, header };
}

export const deliveryQuery = (workspaceId: string, deliveryId: string) => ({
  queryKey: ['delivery', workspaceId, deliveryId],
  queryFn: () => dataOf(api.GET(ONE, { params: deliveryPath(workspaceId, deliveryId) })),
});

/** The filter of the page with the names of the API. */
function filterOf({ destination, rule, cause, reason, group, since, until }: DeliveriesSearch) {
  return {
    ...(destination && { destination_id: destination }),
    ...(rule && { rule_id: rule }),
    ...(cause && { cause }),
    ...(reason && { reason }),
    ...(group && { group }),
    ...(since && { since }),
    ...(until && { until }),
  };
}

export function loadDeliveries(workspaceId: string, search: DeliveriesSearch, signal: AbortSignal) {
  const { status, cursor } = search;
  return pageOf(
    api.GET(ALL, {
      params: {
        ...workspacePath(workspaceId),
        query: {
          limit: PAGE_SIZE,
          ...filterOf(search),
          ...(status && { status }),
          ...(cursor && { cursor }),
        },
      },
      signal,
    }),
  );
}

export const groupsQuery = (workspaceId: string, search: DeliveriesSearch) => {
  const { status, destination, rule, cause } = search;
  const counted = status === 'dead' || status === 'retrying' ? status : undefined;
  return {
    queryKey: ['delivery-groups', workspaceId, counted, destination, rule, cause],
    queryFn: ({ signal }: { readonly signal: AbortSignal }) =>
      dataOf(
        api.GET(`${ALL}/groups`, {
          params: {
            ...workspacePath(workspaceId),
            query: {
              limit: MAX_GROUPS,
              ...(counted && { status: counted }),
              ...(destination && { destination_id: destination }),
              ...(rule && { rule_id: rule }),
              ...(cause && { cause }),
            },
          },
          signal,
        }),
      ),
  };
};

/** Calls that redrive or discard the deliveries of a filter. */
export function bulkCall(workspaceId: string, action: BulkAction, search: DeliveriesSearch): BulkCall {
  const filter = filterOf(search);
  const params = workspacePath(workspaceId);
  return async (cursor) => {
    const body = { ...filter, ...(cursor === undefined ? {} : { cursor }) };
    if (action === 'redrive') {
      const answer = await dataOf(api.POST(`${ALL}/redrive`, { params, body }));
      return { done: answer.redriven, cursor: answer.cursor };
    }
    const answer = await dataOf(api.POST(`${ALL}/discard`, { params, body }));
    return { done: answer.discarded, cursor: answer.cursor };
  };
}

export async function actOnOne(workspaceId: string, action: BulkAction, deliveryId: string): Promise<void> {
  const params = deliveryPath(workspaceId, deliveryId);
  if (action === 'redrive') await dataOf(api.POST(`${ONE}/redrive`, { params, body: {} }));
  else await dataOf(api.POST(`${ONE}/discard`, { params, body: {} }));
}
