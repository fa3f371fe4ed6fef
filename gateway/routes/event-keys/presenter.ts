import type { WriteKey } from '@tributary/core';
import type { Static } from 'typebox';
import { lastUse } from '../keys/key-resource.ts';
import type { writeKeyResource } from './schemas.ts';

/** `uses` holds the last use of keys, epoch ms. The hash stays inside. */
export function presentWriteKey(
  key: WriteKey,
  uses: ReadonlyMap<string, number>,
): Static<typeof writeKeyResource> {
  return {
    id: key.id,
    workspace_id: key.workspace_id,
    name: key.name,
    key_prefix: key.key_prefix,
    environment: key.environment,
    pubsub_topic: key.pubsub_topic,
    source_id: key.source_id,
    collect_ip: key.collect_ip ?? false,
    status: key.status,
    last_used_at: lastUse(uses, key.id),
    created_by: key.created_by,
    created_at: key.created_at,
    updated_at: key.updated_at,
  };
}
