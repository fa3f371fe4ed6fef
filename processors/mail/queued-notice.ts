import {
  alertMail,
  alertRecipients,
  type CatalogView,
  type ConfirmationNotice,
  type DeletionNotice,
  deletionMail,
  destinationMail,
  HEADER,
  InvalidInput,
  isObject,
  isUuid,
  type LogEntry,
  type Mail,
  noticeRecipients,
  organizationRecipient,
  parseObject,
  unconfirmedAddress,
  type WorkspaceEntities,
} from '@tributary/core';
import { timeOf } from '../event-record.ts';

/** A notice that becomes a mail, alone or together with others. */
export interface QueuedNotice {
  /** A UUID: repeated notices with the same id are one. */
  readonly id: string;
  /** ISO 8601 */
  readonly at: string;
  readonly organizationId: string;
  /** The notice as it was queued. */
  readonly value: object;
  /** Whether it is the request for a link, which is composed by the stage. */
  readonly isLink: boolean;
  /** The current recipient; null without one. */
  recipient(state: CatalogView): string | null;
  /** Undefined where what the notice is about does not exist any more. */
  compose(state: CatalogView, to: string): Mail | undefined;
}

/** A record of the mail topics. */
export interface QueuedRecord {
  readonly entry: LogEntry;
  readonly notices: readonly QueuedNotice[];
  /** Notices of which only the number is known. */
  readonly more: number;
  /** Whether the stage wrote it: a record of the stage repeats no other one, whatever its ids are. */
  readonly isGathered: boolean;
  /** It is not tried before this time, epoch ms. */
  readonly notBefore: number;
}

/** Notices that are kept with their content until the next mail; of older ones only the number is. */
const MAX_GATHERED = 50;
const MAX_GATHERED_BYTES = 256 * 1024;

/**
 * The value of a record that stands for several notices, oldest first: the first of them, with the others in `gathered`.
 * Release 0.2.0 reads it as the first one.
 */
export function gatheredValue(notices: readonly QueuedNotice[], more: number): string {
  const kept: QueuedNotice[] = [];
  let bytes = 0;
  for (const notice of notices.toReversed()) {
    bytes += Buffer.byteLength(JSON.stringify(notice.value));
    if (kept.length > 0 && (kept.length === MAX_GATHERED || bytes > MAX_GATHERED_BYTES)) break;
    kept.unshift(notice);
  }
  const [first, ...others] = kept.map(({ value }) => value);
  return JSON.stringify({ ...first, gathered: others, more: more + notices.length - kept.length });
}

/**
 * Reads a record. The writers guarantee the fields; only those that decide about recipient and deduplication are checked.
 * Throws `InvalidInput`.
 */
export function queuedRecordOf(entry: LogEntry): QueuedRecord {
  const { gathered, more, ...first } = parseObject(entry.value);
  if (gathered !== undefined && !Array.isArray(gathered)) throw new InvalidInput('no gathered notices');
  const others = (gathered ?? []) as readonly Record<string, unknown>[];
  return {
    entry,
    notices: [first, ...others].map(noticeOf),
    more: typeof more === 'number' ? more : 0,
    isGathered: gathered !== undefined,
    notBefore: Number(entry.headers[HEADER.notBefore] ?? 0),
  };
}

function noticeOf(value: Readonly<Record<string, unknown>>): QueuedNotice {
  const { id, organization_id: organizationId, at } = value;
  if (typeof id !== 'string' || !isUuid(id)) throw new InvalidInput('no notice id');
  if (typeof organizationId !== 'string') throw new InvalidInput('no organization');
  if (typeof at !== 'string') throw new InvalidInput('no time');
  timeOf(at);
  return { id, at, organizationId, value, ...addressedBy(value) };
}

type Addressing = Pick<QueuedNotice, 'isLink' | 'recipient' | 'compose'>;

function addressedBy(value: Readonly<Record<string, unknown>>): Addressing {
  if (value.kind === 'destination') return ofChange('destination', value, noticeRecipients, destinationMail);
  if (value.kind === 'alert') return ofChange('alert', value, alertRecipients, alertMail);
  return value.kind === 'confirmation' ? ofConfirmation(value) : ofDeletion(value);
}

function ofDeletion(value: Readonly<Record<string, unknown>>): Addressing {
  if (!Array.isArray(value.regions) || typeof value.counts !== 'object') throw new InvalidInput('no counts');
  const notice = value as unknown as DeletionNotice;
  return {
    isLink: false,
    recipient: (state) => organizationRecipient(state, notice.organization_id),
    compose(state, to) {
      const organization = state.organization(notice.organization_id);
      return organization && deletionMail(notice, to, organization);
    },
  };
}

/** A notice of a change of a destination or an alert. */
function ofChange<Kind extends 'destination' | 'alert', Notice>(
  kind: Kind,
  value: Readonly<Record<string, unknown>>,
  recipientsOf: (state: CatalogView, current: WorkspaceEntities[Kind]) => { readonly email: string | null },
  mailOf: (notice: Notice, to: string) => Mail,
): Addressing {
  const [workspaceId, id] = [idIn(value.workspace), idIn(value[kind])];
  if (workspaceId === undefined || id === undefined || typeof value.turn !== 'object')
    throw new InvalidInput(`no ${kind}`);
  return {
    isLink: false,
    recipient(state) {
      const current = state.entity(kind, workspaceId, id);
      return current === undefined ? null : recipientsOf(state, current).email;
    },
    compose: (_state, to) => mailOf(value as Notice, to),
  };
}

function idIn(value: unknown): string | undefined {
  return isObject(value) && typeof value.id === 'string' ? value.id : undefined;
}

function ofConfirmation(value: Readonly<Record<string, unknown>>): Addressing {
  const notice = value as unknown as Partial<ConfirmationNotice>;
  if (typeof notice.of?.id !== 'string') throw new InvalidInput('no entity');
  return {
    isLink: true,
    recipient: (state) => unconfirmedAddress(state, notice as ConfirmationNotice) ?? null,
    compose: () => undefined,
  };
}
