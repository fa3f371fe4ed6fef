import type { Schemas } from '../../api/client.ts';
import { wordsOf } from './audited-types.ts';

export type AuditEntry = Schemas['AuditEntry'];

/** The author as a person knows them: an e-mail address, the start of a key, the name of a stage. */
export function actorOf({ type, id, email, key_prefix }: AuditEntry['actor']): string {
  if (type === 'account') return email ?? id;
  return `${wordsOf(type)} ${key_prefix === null ? id : `${key_prefix}…`}`;
}

/** The name of the entity. A member has no name, but an e-mail address. */
export function entityNameOf({ entity: { id, name }, before, after }: AuditEntry): string {
  const email = (after ?? before)?.email;
  return name ?? (typeof email === 'string' ? email : id);
}

export function titleOf(entry: AuditEntry): string {
  return `${wordsOf(entry.entity.type)} "${entityNameOf(entry)}" ${wordsOf(entry.action)}`;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** The bounds of the API for days of the viewer's calendar: from the start of the first to the end of the last. */
export function rangeOf(
  since: string | undefined,
  until: string | undefined,
): { since?: string; until?: string } {
  return {
    ...(since !== undefined && { since: DAY.test(since) ? midnight(since, 0) : since }),
    ...(until !== undefined && { until: DAY.test(until) ? midnight(until, 1) : until }),
  };
}

function midnight(day: string, daysLater: number): string {
  const date = new Date(`${day}T00:00:00`);
  if (Number.isNaN(date.getTime())) return day; // the API refuses it and names the fault
  date.setDate(date.getDate() + daysLater);
  return date.toISOString();
}
