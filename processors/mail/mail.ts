import {
  type AlertNotice,
  alertMail,
  alertRecipients,
  type BatchStage,
  type Catalog,
  type CatalogView,
  type Clock,
  type Deduplicator,
  type DeletionNotice,
  type DestinationNotice,
  deadLetterOf,
  deletionMail,
  destinationMail,
  HEADER,
  InvalidInput,
  iso,
  isUuid,
  type LogEntry,
  type Logger,
  type Mail,
  type Mailer,
  type MailSendResult,
  type Metrics,
  messageOf,
  noticeRecipients,
  type OutputRecord,
  parseObject,
  type Source,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { awaitCatalog } from '../catalog-position.ts';
import { timeOf } from '../event-record.ts';

export interface MailDependencies {
  readonly catalog: Catalog;
  readonly deduplicator: Deduplicator;
  /** Absent without a configured mail server: mails wait. */
  readonly mailer?: Mailer | undefined;
  /** Epoch ms. */
  readonly clock: Clock;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
  /** Retention of the mail topics, ms: mails that cannot be sent are dead-lettered before it ends. */
  readonly retentionMs: number;
}

/** The outcome of a mail, which is counted, and its output records. */
interface HandledMail {
  readonly outcome: 'sent' | 'later' | 'waiting' | 'refused' | 'expired' | 'no_address' | 'duplicate';
  readonly outputRecords: readonly OutputRecord[];
}

/** Interval of warnings that mails wait for a mail server, ms. */
const WARN_EVERY_MS = 3_600_000;

/**
 * The stage `mail`: sends queued mails one after the other.
 *
 * - While the server does not respond, the stage pauses, as for any engine.
 * - A mail that is refused for now goes to the retry topic and delays no other.
 * - A mail that is refused for good, or that expired for whatever reason, is dead-lettered: retention never drops a mail
 *   silently.
 * - After a crash between the server's response and the commit a mail is sent again, with the same `Message-ID`.
 */
export function mail(dependencies: MailDependencies): BatchStage['process'] {
  const sender = new MailSender(dependencies);
  return async ({ entries }) => {
    const outputRecords: OutputRecord[] = [];
    for (const entry of entries) {
      const result = await sender.handle(entry);
      dependencies.metrics.count('tributary_mails_total', { outcome: result.outcome });
      outputRecords.push(...result.outputRecords);
    }
    return outputRecords;
  };
}

class MailSender {
  readonly #parts: MailDependencies;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: MailDependencies) {
    this.#parts = parts;
  }

  async handle(entry: LogEntry): Promise<HandledMail> {
    const { catalog, catalogWaitMs, logger, mailer } = this.#parts;
    const notice = mailNoticeOf(entry);
    const about = { notice: notice.id, organization: notice.organizationId };
    await awaitCatalog(catalog, [entry], catalogWaitMs);
    if (!(await this.#isFirst(notice, entry))) return { outcome: 'duplicate', outputRecords: [] };
    const composed = notice.compose(catalog.state);
    if (composed === undefined) {
      logger.info(about, 'a mail is dropped: there is no address for it');
      return { outcome: 'no_address', outputRecords: [] };
    }
    if (mailer === undefined) {
      this.#warnOfWaiting();
      return this.#isExpired(notice)
        ? this.#deadLetter(entry, 'expired', 'there was no mail server')
        : { outcome: 'waiting', outputRecords: [retryRecord(entry, 'waiting')] };
    }
    const verdict = await this.#send(mailer, composed, notice);
    if (verdict.kind === 'unavailable') return this.#deadLetter(entry, 'expired', verdict.reason);
    if (verdict.kind === 'sent') {
      logger.info(about, 'mail sent');
      return { outcome: 'sent', outputRecords: [] };
    }
    const { reason } = verdict;
    if (verdict.kind === 'refused') return this.#deadLetter(entry, 'refused', reason);
    if (this.#isExpired(notice)) return this.#deadLetter(entry, 'expired', reason);
    logger.warn({ ...about, reason }, 'the mail server refuses a mail for now; it is retried later');
    return { outcome: 'later', outputRecords: [retryRecord(entry, 'later')] };
  }

  /** `unavailable`: the server does not respond, and the mail has expired. Before that, rejects as the mailer does. */
  async #send(
    mailer: Mailer,
    mail: Mail,
    notice: MailNotice,
  ): Promise<MailSendResult | { readonly kind: 'unavailable'; readonly reason: string }> {
    try {
      return await mailer.send(mail);
    } catch (error) {
      if (!(error instanceof Unavailable && this.#isExpired(notice))) throw error;
      return { kind: 'unavailable', reason: messageOf(error) };
    }
  }

  /** Deduplicates mails by their notice. A mail of the retry topic was claimed before. */
  async #isFirst(notice: MailNotice, { position }: LogEntry): Promise<boolean> {
    if (position.topic !== TOPIC.mail) return true;
    const dedupeClaim = {
      workspaceId: notice.organizationId,
      environment: 'production',
      messageId: `mail:${notice.id}`,
      position,
    } as const;
    const [first] = await this.#parts.deduplicator.claim([dedupeClaim]);
    return first === true;
  }

  #isExpired({ at }: MailNotice): boolean {
    return this.#parts.clock() - Date.parse(at) > mailExpiryMs(this.#parts.retentionMs);
  }

  #deadLetter(entry: LogEntry, outcome: 'refused' | 'expired', reason: string): HandledMail {
    const { logger, clock } = this.#parts;
    const error = `mail ${outcome}: ${reason}`;
    logger.error({ position: entry.position, error }, 'a mail is dead-lettered');
    return { outcome, outputRecords: [deadLetterOf('mail', entry, error, iso(clock()))] };
  }

  #warnOfWaiting(): void {
    const now = this.#parts.elapsed();
    if (now - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = now;
    this.#parts.logger.warn({}, 'mails wait to be sent: set TRIBUTARY_SMTP_URL and TRIBUTARY_MAIL_FROM');
  }
}

/** A notice that becomes a mail. */
interface MailNotice {
  /** A UUID: repeated notices with the same id are one mail. */
  readonly id: string;
  /** ISO 8601 */
  readonly at: string;
  readonly organizationId: string;
  /** The mail to the current recipient; undefined without one. */
  compose(state: CatalogView): Mail | undefined;
}

/**
 * The notice of a record. The writer guarantees the fields; only those that decide about recipient and deduplication are
 * checked. Throws `InvalidInput`.
 */
function mailNoticeOf(entry: LogEntry): MailNotice {
  const value = parseObject(entry.value);
  const { id, organization_id: organizationId, at } = value;
  if (typeof id !== 'string' || !isUuid(id)) throw new InvalidInput('no notice id');
  if (typeof organizationId !== 'string') throw new InvalidInput('no organization');
  if (typeof at !== 'string') throw new InvalidInput('no time');
  timeOf(at);
  const compose = composerOf(value);
  return { id, at, organizationId, compose };
}

function composerOf(value: Record<string, unknown>): MailNotice['compose'] {
  if (value.kind === 'destination') return ofDestination(value);
  return value.kind === 'alert' ? ofAlert(value) : ofDeletion(value);
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

function ofAlert(value: Record<string, unknown>): MailNotice['compose'] {
  const notice = value as unknown as Partial<AlertNotice>;
  const { workspace, alert, turn } = notice;
  if (typeof workspace?.id !== 'string' || typeof alert?.id !== 'string' || typeof turn !== 'object')
    throw new InvalidInput('no alert');
  return (state) => {
    const current = state.entity('alert', workspace.id, alert.id);
    const to = current === undefined ? null : alertRecipients(state, current).email;
    return to === null ? undefined : alertMail(notice as AlertNotice, to);
  };
}

/** Why a mail is retried: the server refused it for now, or there is none. Value of the `outcome` header. */
export type Retry = 'later' | 'waiting';

/** The record of the retry topic: the mail unchanged. */
function retryRecord({ key, value, headers }: LogEntry, why: Retry): OutputRecord {
  return { topic: TOPIC.mailRetry, key, value, headers: { ...headers, [HEADER.outcome]: why } };
}

/** The retry topic: mails are due after `retryMs`, or at once where they waited for a mail server and there is one now. */
export function mailRetries(retryMs: number, hasMailer: boolean): Source {
  return {
    topic: TOPIC.mailRetry,
    dueAt: ({ timestamp, headers }) =>
      hasMailer && headers[HEADER.outcome] === 'waiting' ? timestamp : timestamp + retryMs,
  };
}

/** Part of the retention that a mail may wait; the rest is a reserve for times without processors. */
const SHARE = 3 / 4;

/** The age at which a mail expires, ms: before the retention of the log would drop it. */
function mailExpiryMs(retentionMs: number): number {
  return retentionMs * SHARE;
}
