import { type Environment, iso, makeKey, messageOf, newId, TributaryError } from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { nullable, oneOf, resourceFields, time, times, uuid } from '../../resources/schemas.ts';

/** The fields of every kind of key. */
export const keyFields = {
  ...resourceFields,
  key_prefix: Type.String({ description: 'The start of the raw key, to tell keys apart.' }),
  status: oneOf(['active', 'revoked']),
  last_used_at: nullable(time),
  created_by: uuid,
  ...times,
};

/** The raw key, in the response to its creation only. */
export const rawKey = { key: Type.String({ description: 'The raw key. It is not shown again.' }) };

export const KEY_BYTES = 32;

/** The workspace of a new key, and the account that it is created for. */
export interface KeyOwner {
  readonly workspaceId: string;
  readonly accountId: string;
}

export function keyOwnerOf({ workspace, caller }: FastifyRequest): KeyOwner {
  return { workspaceId: workspace.id, accountId: accountOf(caller) };
}

/** Creates a key and the fields of its entity. The raw text is returned to the caller and not stored. */
export function makeKeyFields(
  { workspaceId, accountId }: KeyOwner,
  { random }: Pick<GatewayDependencies, 'random'>,
  kind: 'api_key' | 'write_key',
  name: string,
  environment?: Environment,
) {
  const { raw, hash, prefix } = makeKey(kind, random(KEY_BYTES), environment);
  const fields = {
    id: newId(),
    workspace_id: workspaceId,
    name,
    hash,
    key_prefix: prefix,
    status: 'active',
    created_by: accountId,
  } as const;
  return { raw, fields };
}

/** The header that names fields which are null because their source does not respond. */
const UNKNOWN_FIELDS = 'x-unknown-fields';

/**
 * The last uses of keys, epoch ms. While the counters do not respond the map is empty, and a header states that the uses
 * are unknown: listing keys, which revoking one needs, must not depend on the counters.
 */
export async function readLastUses(
  request: FastifyRequest,
  reply: FastifyReply,
  { counters, logger }: Pick<GatewayDependencies, 'counters' | 'logger'>,
  keys: readonly { readonly id: string }[],
): Promise<ReadonlyMap<string, number>> {
  try {
    return await counters.lastUsed(keys.map(({ id }) => id));
  } catch (error) {
    if (!(error instanceof TributaryError) || !error.retryable) throw error;
    logger.warn({ request_id: request.id, error: messageOf(error) }, 'the last use of keys cannot be read');
    reply.header(UNKNOWN_FIELDS, 'last_used_at');
    return NEVER_USED;
  }
}

/** The last use of a key, for responses. */
export function lastUse(uses: ReadonlyMap<string, number>, keyId: string): string | null {
  const at = uses.get(keyId);
  return at === undefined ? null : iso(at);
}

/** For a new key. */
export const NEVER_USED: ReadonlyMap<string, number> = new Map();
