import type { AuditEntry, HistoryEntry } from '@tributary/core';
import type { Static } from 'typebox';
import type { auditResource } from './schemas.ts';

export function presentAuditEntry({ body }: HistoryEntry): Static<typeof auditResource> {
  const entry = body as unknown as AuditEntry; // as the audit stage wrote it down
  return {
    id: entry.id,
    at: entry.at,
    action: entry.action,
    actor: entry.actor,
    entity: entry.entity,
    before: entry.before,
    after: entry.after,
    address: entry.address || null,
    request_id: entry.request_id || null,
  };
}
