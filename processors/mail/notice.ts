import {
  type CatalogView,
  type DeletionNotice,
  type DestinationNotice,
  deletionMail,
  destinationMail,
  InvalidInput,
  isUuid,
  type LogEntry,
  type Mail,
  noticeRecipients,
  parseObject,
} from '@tributary/core';
import { timeOf } from '../entry.ts';

/** What is to be told by mail. */
export interface MailNotice {
  /** A UUID: a notice that comes again under the same id is the same mail. */
  readonly id: string;
  /** ISO 8601 */
  readonly at: string;
  readonly organizationId: string;
  /** Who is told as things are now, and how; undefined: nobody. */
  compose(state: CatalogView): Mail | undefined;
}

/**
 * The notice an entry holds. Fields are the writer's promise; only those are checked that decide where the mail goes,
 * or whether it is the same. Throws `InvalidInput`.
 */
export function mailNoticeOf(entry: LogEntry): MailNotice {
  const value = parseObject(entry.value);
  const { id, organization_id: organizationId, at } = value;
  if (typeof id !== 'string' || !isUuid(id)) throw new InvalidInput('no notice id');
  if (typeof organizationId !== 'string') throw new InvalidInput('no organization');
  if (typeof at !== 'string') throw new InvalidInput('no time');
  timeOf(at);
  const compose = value.kind === 'destination' ? ofDestination(value) : ofDeletion(value);
  return { id, at, organizationId, compose };
}

function ofDeletion(value: Record<string, unknown>): MailNotice['compose'] {
  if (!Array.isArray(value.regions) || typeof value.counts !== 'object') throw new InvalidInput('no counts');
  const notice = value as unknown as DeletionNotice;
  return (state) => {
    const organization = state.organization(notice.organization_id);
    const to = organization?.notification_email ?? null;
    return organization === undefined || to === null ? undefined : deletionMail(notice, to, organization);
  };
}

function ofDestination(value: Record<string, unknown>): MailNotice['compose'] {
  const notice = value as unknown as Partial<DestinationNotice>;
  const { workspace, destination, turn } = notice;
  if (typeof workspace?.id !== 'string' || typeof destination?.id !== 'string' || typeof turn !== 'object')
    throw new InvalidInput('no destination');
  return (state) => {
    const current = state.entity('destination', workspace.id, destination.id);
    const to = current === undefined ? null : noticeRecipients(state, current).email;
    return to === null ? undefined : destinationMail(notice as DestinationNotice, to);
  };
}
