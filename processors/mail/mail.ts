import {
  type BatchStage,
  type Catalog,
  type CatalogView,
  type Clock,
  type Deduplicator,
  type DeletionNotice,
  type DestinationNotice,
  deletionMail,
  destinationMail,
  type Emission,
  HEADER,
  InvalidInput,
  iso,
  isUuid,
  type LogEntry,
  type Logger,
  type Mail,
  type Mailer,
  type MailVerdict,
  type Metrics,
  messageOf,
  noticeRecipients,
  parseObject,
  poisonEmission,
  type Source,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { awaitCatalog } from '../catalog-position.ts';
import { timeOf } from '../event-record.ts';

export interface MailDependencies {
  readonly catalog: Catalog;
  readonly deduplicator: Deduplicator;
  /** Absent where no mail server is configured: mails wait. */
  readonly mailer?: Mailer | undefined;
  /** Epoch ms. */
  readonly clock: Clock;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
  /** How long the log keeps mails, ms: those that cannot be sent are given up before it drops them. */
  readonly retentionMs: number;
}

/** What became of a mail: the outcome that is counted, and what is to be emitted for it. */
interface Handled {
  readonly outcome: 'sent' | 'later' | 'waiting' | 'refused' | 'expired' | 'no_address' | 'duplicate';
  readonly emissions: readonly Emission[];
}

/** How often it is said that mails wait for want of a mail server, ms. */
const TELL_EVERY_MS = 3_600_000;

/**
 * Sends what is queued, one mail after the other. While the server does not answer the stage waits, as for any engine;
 * a mail that the server does not take now comes again later and holds up no other; one that it refuses for good, or
 * that grew too old, is given up, whatever it waited for: the log's retention never drops one unsaid. A crash between the server's answer and the commit sends a mail again, under the same
 * `Message-ID`.
 */
export function mail(dependencies: MailDependencies): BatchStage['process'] {
  const sending = new MailSender(dependencies);
  return async ({ entries }) => {
    const emissions: Emission[] = [];
    for (const entry of entries) {
      const handled = await sending.handle(entry);
      dependencies.metrics.count('tributary_mails_total', { outcome: handled.outcome });
      emissions.push(...handled.emissions);
    }
    return emissions;
  };
}

class MailSender {
  readonly #parts: MailDependencies;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(parts: MailDependencies) {
    this.#parts = parts;
  }

  async handle(entry: LogEntry): Promise<Handled> {
    const { catalog, catalogWaitMs, logger, mailer } = this.#parts;
    const notice = mailNoticeOf(entry);
    const about = { notice: notice.id, organization: notice.organizationId };
    await awaitCatalog(catalog, [entry], catalogWaitMs);
    if (!(await this.#isFirst(notice, entry))) return { outcome: 'duplicate', emissions: [] };
    const composed = notice.compose(catalog.state);
    if (composed === undefined) {
      logger.info(about, 'a mail was asked for, but there is no address for it');
      return { outcome: 'no_address', emissions: [] };
    }
    if (mailer === undefined) {
      this.#tellOfWaiting();
      return this.#isExpired(notice)
        ? this.#giveUp(entry, 'expired', 'there was no mail server')
        : { outcome: 'waiting', emissions: [again(entry, 'waiting')] };
    }
    const verdict = await this.#send(mailer, composed, notice);
    if (verdict.kind === 'unavailable') return this.#giveUp(entry, 'expired', verdict.reason);
    if (verdict.kind === 'sent') {
      logger.info(about, 'mail sent');
      return { outcome: 'sent', emissions: [] };
    }
    const { reason } = verdict;
    if (verdict.kind === 'refused') return this.#giveUp(entry, 'refused', reason);
    if (this.#isExpired(notice)) return this.#giveUp(entry, 'expired', reason);
    logger.warn({ ...about, reason }, 'the mail server does not take a mail now; it is tried again later');
    return { outcome: 'later', emissions: [again(entry, 'later')] };
  }

  /** `unavailable`: the server does not answer, and the mail may wait no longer. While it may, rejects as the mailer does. */
  async #send(
    mailer: Mailer,
    mail: Mail,
    notice: MailNotice,
  ): Promise<MailVerdict | { readonly kind: 'unavailable'; readonly reason: string }> {
    try {
      return await mailer.send(mail);
    } catch (error) {
      if (!(error instanceof Unavailable && this.#isExpired(notice))) throw error;
      return { kind: 'unavailable', reason: messageOf(error) };
    }
  }

  /** Who asked for the same mail twice gets it once. A mail that comes again later was the first already. */
  async #isFirst(notice: MailNotice, { position }: LogEntry): Promise<boolean> {
    if (position.topic !== TOPIC.mail) return true;
    const claimant = {
      workspaceId: notice.organizationId,
      environment: 'production',
      messageId: `mail:${notice.id}`,
      position,
    } as const;
    const [first] = await this.#parts.deduplicator.claim([claimant]);
    return first === true;
  }

  #isExpired({ at }: MailNotice): boolean {
    return this.#parts.clock() - Date.parse(at) > mailExpiryMs(this.#parts.retentionMs);
  }

  #giveUp(entry: LogEntry, outcome: 'refused' | 'expired', reason: string): Handled {
    const { logger, clock } = this.#parts;
    const error = `mail ${outcome}: ${reason}`;
    logger.error({ position: entry.position, error }, 'a mail is given up');
    return { outcome, emissions: [poisonEmission('mail', entry, error, iso(clock()))] };
  }

  #tellOfWaiting(): void {
    const now = this.#parts.elapsed();
    if (now - this.#toldAt < TELL_EVERY_MS) return;
    this.#toldAt = now;
    this.#parts.logger.warn({}, 'mails wait to be sent: set TRIBUTARY_SMTP_URL and TRIBUTARY_MAIL_FROM');
  }
}

/** What is to be told by mail. */
interface MailNotice {
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
function mailNoticeOf(entry: LogEntry): MailNotice {
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

/** Why a mail is tried again: the server did not take it, or there is none. In the `outcome` header. */
export type Retry = 'later' | 'waiting';

/** The mail once more, unchanged. */
function again({ key, value, headers }: LogEntry, why: Retry): Emission {
  return { topic: TOPIC.mailRetry, key, value, headers: { ...headers, [HEADER.outcome]: why } };
}

/** Mails to be tried again: after `retryMs`, or at once when they waited for the mail server that there is now. */
export function mailRetries(retryMs: number, hasMailer: boolean): Source {
  return {
    topic: TOPIC.mailRetry,
    dueAt: ({ timestamp, headers }) =>
      hasMailer && headers[HEADER.outcome] === 'waiting' ? timestamp : timestamp + retryMs,
  };
}

/** Of the time that the log keeps a mail, how much it may wait; the rest is for the processors to be away. */
const SHARE = 3 / 4;

/** The age at which a mail that cannot be sent is given up, ms: ahead of the log, which would drop it and say nothing. */
function mailExpiryMs(retentionMs: number): number {
  return retentionMs * SHARE;
}
