import { AUDIT_ACTOR_TYPES, AUDITED_TYPES } from '@tributary/core';
import { Type } from 'typebox';
import { pageQuery } from '../../resources/pagination.ts';
import { closed, freeObject, listOf, nullable, oneOf, time, uuid } from '../../resources/schemas.ts';
import { timeText } from '../../resources/values.ts';

const word = (description: string) => Type.String({ minLength: 1, maxLength: 200, description });

export const auditQuery = closed({
  ...pageQuery,
  actor: Type.Optional(word('Id of the account, key or stage that did it.')),
  entity_type: Type.Optional(oneOf([...AUDITED_TYPES, 'profile'])),
  entity_id: Type.Optional(word('Id of what it was done to.')),
  action: Type.Optional(word('`created`, `updated`, `joined`, `revoked`, `archived`, `deleted`, ...')),
  since: Type.Optional(timeText('ISO 8601; from then on.')),
  until: Type.Optional(timeText('ISO 8601; before then.')),
});

export const auditResource = Type.Object(
  {
    id: uuid,
    at: time,
    action: Type.String(),
    actor: Type.Object({
      type: oneOf(AUDIT_ACTOR_TYPES),
      id: Type.String(),
      email: nullable(Type.String({ description: 'Of an account, as it was then.' })),
      key_prefix: nullable(Type.String({ description: 'Of an API key or a client key.' })),
    }),
    entity: Type.Object({
      type: Type.String(),
      id: Type.String(),
      name: nullable(Type.String()),
    }),
    before: nullable(freeObject('What was there, secrets masked; null when nothing was.')),
    after: nullable(
      freeObject(
        'What is there since, secrets masked; null when nothing is. Of a profile: what the call named and came to, in counts.',
      ),
    ),
    address: nullable(Type.String({ description: 'Where the request came from; null for a stage.' })),
    request_id: nullable(Type.String({ description: '`x-request-id` of the answer; null for a stage.' })),
  },
  { title: 'AuditEntry' },
);

export const auditList = listOf(auditResource, 'Newest first.');
