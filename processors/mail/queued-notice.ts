import {
  type AlertNotice,
  alertMail,
  alertRecipients,
  type CatalogView,
  type ConfirmationNotice,
  type DeletionNotice,
  type DestinationNotice,
  deletionMail,
  destinationMail,
  HEADER,
  InvalidInput,
  isUuid,
  type LogEntry,
  type Mail,
  noticeRecipients,
  organizationRecipient,
  parseObject,
  unconfirmedAddress,
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
  if (value.kind === 'destination') return ofDestination(value);
  if (value.kind === 'confirmation') return ofConfirmation(value);
  return value.kind === 'alert' ? ofAlert(value) : ofDeletion(value);
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

function ofDestination(value: Readonly<Record<string, unknown>>): Addressing {
  const notice = value as unknown as Partial<DestinationNotice>;
  const { workspace, destination, turn } = notice;
  if (typeof workspace?.id !== 'string' || typeof destination?.id !== 'string' || typeof turn !== 'object')
    throw new InvalidInput('no destination');
  return {
    isLink: false,
    recipient(state) {
      const current = state.entity('destination', workspace.id, destination.id);
      return current === undefined ? null : noticeRecipients(state, current).email;
    },
    compose: (_state, to) => destinationMail(notice as DestinationNotice, to),
  };
}

function ofAlert(value: Readonly<Record<string, unknown>>): Addressing {
  const notice = value as unknown as Partial<AlertNotice>;
  const { workspace, alert, turn } = notice;
  if (typeof workspace?.id !== 'string' || typeof alert?.id !== 'string' || typeof turn !== 'object')
    throw new InvalidInput('no alert');
  return {
    isLink: false,
    recipient(state) {
      const current = state.entity('alert', workspace.id, alert.id);
      return current === undefined ? null : alertRecipients(state, current).email;
    },
    compose: (_state, to) => alertMail(notice as AlertNotice, to),
  };
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
