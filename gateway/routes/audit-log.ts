import {
  AUDIT_ACTOR_TYPES,
  AUDITED_TYPES,
  type AuditEntry,
  type HistoryEntry,
  type HistoryQuery,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { linkNext, pageQuery, pageRequest, withCursor } from '../resources/lists.ts';
import {
  closed,
  freeObject,
  listOf,
  nullable,
  oneOf,
  operation,
  shownAs,
  string,
  time,
  timeRange,
  timeText,
  uuid,
} from '../resources/schemas.ts';

const word = (description: string) => Type.String({ minLength: 1, maxLength: 200, description });

const auditQuery = closed({
  ...pageQuery,
  actor: Type.Optional(word('Id of the account, key or stage that did it.')),
  entity_type: Type.Optional(oneOf([...AUDITED_TYPES, 'profile', 'delivery'])),
  entity_id: Type.Optional(word('The id of the changed entity.')),
  action: Type.Optional(word('`created`, `updated`, `joined`, `revoked`, `archived`, `deleted`, ...')),
  since: Type.Optional(timeText('ISO 8601; from then on.')),
  until: Type.Optional(timeText('ISO 8601; before then.')),
});

const auditResource = Type.Object(
  {
    id: uuid,
    at: time,
    action: Type.String(),
    actor: Type.Object({
      type: oneOf(AUDIT_ACTOR_TYPES),
      id: Type.String(),
      email: nullable(string('Of an account, as it was then.')),
      key_prefix: nullable(string('Of an API key or a client key.')),
    }),
    entity: Type.Object({
      type: Type.String(),
      id: Type.String(),
      name: nullable(Type.String()),
    }),
    before: nullable(freeObject('The entity before the change, secrets masked; null when there was none.')),
    after: nullable(
      freeObject(
        'The entity after the change, secrets masked; null when there is none. For profiles and deliveries: counts of the request and its result; writes, redrives and discards of one caller are one entry a minute.',
      ),
    ),
    address: nullable(string('Where the request came from; null for a stage.')),
    request_id: nullable(string('`x-request-id` of the answer; null for a stage.')),
  },
  { title: 'AuditEntry' },
);

const auditList = listOf(auditResource, 'Newest first.');

const NARROWING = ['actor', 'entity_type', 'entity_id', 'action'] as const;

/** The history query for the entries of one workspace or organization. 400 for an invalid time. */
function auditEntriesOf(scopeId: string, query: Static<typeof auditQuery>): HistoryQuery {
  const facets = NARROWING.flatMap((name) => {
    const value = query[name];
    return value === undefined ? [] : [[name, value.toLowerCase()] as const];
  });
  return {
    kind: 'audit',
    workspaceId: scopeId,
    facets: Object.fromEntries(facets),
    ...timeRange(query),
    ...pageRequest(query),
  };
}

function presentAuditEntry({ body }: HistoryEntry): Static<typeof auditResource> {
  const entry = body as unknown as AuditEntry; // as the audit stage stores it
  const { address, request_id } = entry;
  return shownAs(auditResource, entry, { address: address || null, request_id: request_id || null });
}

/**
 * `GET /workspaces/:workspaceId/audit-log` and `GET /organizations/:organizationId/audit-log`: the author, time and address
 * of every change. The audit log follows the catalog, so the newest changes may be missing.
 */
export const auditRoutes: Routes = async (app, { history }) => {
  const schema = { querystring: auditQuery, response: { 200: auditList } };

  app.get(
    '/workspaces/:workspaceId/audit-log',
    operation('audit-log.list', 'listAuditLog', 'List who changed what in a workspace', schema),
    (request, reply) => sendEntries(request.workspace.id, request, reply),
  );

  app.get(
    '/organizations/:organizationId/audit-log',
    operation(
      'organization-audit-log.list',
      'listOrganizationAuditLog',
      'List who changed what in an organization',
      schema,
    ),
    (request, reply) => sendEntries(request.organization.id, request, reply),
  );

  async function sendEntries(
    scopeId: string,
    request: FastifyRequest & { readonly query: Parameters<typeof auditEntriesOf>[1] },
    reply: FastifyReply,
  ) {
    const query = auditEntriesOf(scopeId, request.query);
    const page = await withCursor(() => history.list(query));
    linkNext(request, reply, page.next);
    return page.entries.map(presentAuditEntry);
  }
};
