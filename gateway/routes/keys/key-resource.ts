import { type Environment, iso, makeKey, messageOf, newId, TributaryError } from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { nullable, oneOf, resourceFields, time, times, uuid } from '../../resources/schemas.ts';

/** What every kind of key shows. */
export const keyFields = {
  ...resourceFields,
  key_prefix: Type.String({ description: 'The start of the raw key, to tell keys apart.' }),
  status: oneOf(['active', 'revoked']),
  last_used_at: nullable(time),
  created_by: uuid,
  ...times,
};

/** The raw key beside its resource, in the answer to its creation and nowhere else. */
export const rawKey = { key: Type.String({ description: 'The raw key. It is not shown again.' }) };

export const KEY_BYTES = 32;

/** Makes a key and the fields of its entity; the raw text is kept by nobody but the caller. */
export function makeKeyFields(
  request: FastifyRequest,
  { random }: Pick<GatewayDependencies, 'random'>,
  kind: 'api_key' | 'write_key',
  name: string,
  environment?: Environment,
) {
  const { raw, hash, prefix } = makeKey(kind, random(KEY_BYTES), environment);
  const fields = {
    id: newId(),
    workspace_id: request.workspace.id,
    name,
    hash,
    key_prefix: prefix,
    status: 'active',
    created_by: accountOf(request.caller),
  } as const;
  return { raw, fields };
}

/** Names the fields of an answer that are null because they cannot be known now. */
const UNKNOWN_FIELDS = 'x-unknown-fields';

/**
 * The last uses of keys, epoch ms. While the counters do not answer there are none, and the answer says that it does
 * not know: a list of keys is what one needs to revoke one, and that must not wait for the engine that counts.
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
    logger.warn({ request_id: request.id, error: messageOf(error) }, 'the last use of keys is not known now');
    reply.header(UNKNOWN_FIELDS, 'last_used_at');
    return NEVER_USED;
  }
}

/** When a key was last used, as answers show it. */
export function lastUse(uses: ReadonlyMap<string, number>, keyId: string): string | null {
  const at = uses.get(keyId);
  return at === undefined ? null : iso(at);
}

/** Of a key that was just made. */
export const NEVER_USED: ReadonlyMap<string, number> = new Map();
