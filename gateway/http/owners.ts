import type { FastifyRequest } from 'fastify';
import { ownersByAddress } from '../addresses/client-address.ts';
import { addressGroup } from '../addresses/ip-address.ts';

/**
 * The owners that a request counts for in a `FairBudget`, outermost first. Behind one key there may be an attacker and
 * honest browsers, as write keys of web pages are public, so a key's share is divided by address. Ids are names as they
 * are: a text made for each request would have to be hashed anew.
 */
export function ownersOf(request: FastifyRequest): readonly string[] {
  const { caller, clientAddress } = request;
  if (!hasCaller(request)) return ownersByAddress(clientAddress);
  if (caller.kind === 'id_token') return [caller.account.id];
  const inside = [caller.key.id, addressGroup(clientAddress)];
  if (caller.kind === 'client_key') return [caller.key.organization_id, ...inside];
  return [...workspaceOwners(request, caller.key.workspace_id), ...inside];
}

/** Those of a workspace's events and changes, whichever of its keys they came by. */
export function workspaceOwners({ workspace }: FastifyRequest, workspaceId: string): readonly string[] {
  const known = workspace as FastifyRequest['workspace'] | undefined;
  return known === undefined ? [workspaceId] : [known.organization_id, workspaceId];
}

/** False while nobody has shown a good credential. */
export function hasCaller({ caller }: { readonly caller?: unknown }): boolean {
  return caller !== undefined;
}
