import {
  type CanonicalEvent,
  type Contract,
  eventName,
  type JsonObject,
  type WriteKey,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { ApiError, invalidRequest } from '../../http/errors.ts';
import { describeValidation } from '../../http/validation.ts';
import { shapeEvent } from '../events/canonical.ts';
import { batchItems, type EventBody } from '../events/schemas.ts';

/**
 * The canonical form of an event that is only tried, checked as ingestion would check it. 400 (413 for its size) for
 * what ingestion would refuse, and for an event the contract would never be asked about.
 */
export function readTrialEvent(
  request: FastifyRequest,
  contract: Contract,
  body: JsonObject,
  receivedAt: string,
): CanonicalEvent {
  const item = withKindOf(contract, body);
  const { event_type: type } = contract;
  if (item.type !== type)
    throw invalidRequest({ path: '/type', message: `must be "${type}", which the contract is for` });
  const validate = request.compileValidationSchema(batchItems[type]);
  if (!validate(item)) throw invalidRequest(...describeValidation(validate.errors ?? [], 'body'));
  const shaped = shapeEvent(type, item as EventBody, trialKey(contract), receivedAt);
  if (!shaped.ok)
    throw new ApiError(shaped.error === 'payload too large' ? 413 : 400, shaped.error, {
      details: shaped.details,
    });
  checkName(contract, shaped.event);
  return shaped.event;
}

/** What a body leaves out about the kind of its event is what the contract is for. */
export function withKindOf(contract: Contract, body: JsonObject): JsonObject {
  const { event_type, event_name } = contract;
  const type = body.type ?? event_type;
  const nameField = type === 'track' ? 'event' : 'name';
  if (type !== event_type || event_name === '') return { ...body, type };
  return { ...body, type, [nameField]: body[nameField] ?? event_name };
}

function checkName({ event_name }: Contract, event: CanonicalEvent): void {
  if (event_name === '' || eventName(event) === event_name) return;
  const path = event.type === 'track' ? '/event' : '/name';
  throw invalidRequest({ path, message: `must be "${event_name}", which the contract is for` });
}

/** Stands in for the write key of an event that no producer sends. */
function trialKey({ id, workspace_id, name, created_by, created_at, updated_at }: Contract): WriteKey {
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
