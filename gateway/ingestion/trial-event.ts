import { type CanonicalEvent, EVENT_TYPES, type JsonObject, type WriteKey } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { ApiError, invalidRequest } from '../errors/api-error.ts';
import { describeValidation } from '../errors/validation.ts';
import { shapeEvent } from './canonical-event.ts';
import { callItems, type EventBody } from './event-schemas.ts';

/** The entity of a workspace for which an event is tried. */
export type TriedBy = Pick<
  WriteKey,
  'id' | 'workspace_id' | 'name' | 'created_by' | 'created_at' | 'updated_at'
>;

/** The canonical form of an event for a dry run. 400, or 413 for its size, as at ingestion. */
export function readTrialEvent(
  request: FastifyRequest,
  triedBy: TriedBy,
  item: JsonObject,
  receivedAt: string,
): CanonicalEvent {
  const type = EVENT_TYPES.find((known) => known === item.type);
  if (type === undefined)
    throw invalidRequest({ path: '/type', message: `must be one of ${EVENT_TYPES.join(', ')}` });
  const validate = request.compileValidationSchema(callItems[type]);
  if (!validate(item)) throw invalidRequest(...describeValidation(validate.errors ?? [], 'body'));
  const shaped = shapeEvent(type, item as EventBody, trialKey(triedBy), receivedAt);
  if (!shaped.ok)
    throw new ApiError(shaped.error === 'payload too large' ? 413 : 400, shaped.error, {
      details: shaped.details,
    });
  return shaped.event;
}

/** Stands in for the write key of the producer. */
function trialKey({ id, workspace_id, name, created_by, created_at, updated_at }: TriedBy): WriteKey {
  return {
    id,
    workspace_id,
    name,
    environment: 'development',
    source_id: null,
    pubsub_topic: '',
    hash: '',
    key_prefix: '',
    status: 'active',
    version: 1,
    created_by,
    created_at,
    updated_at,
  };
}
