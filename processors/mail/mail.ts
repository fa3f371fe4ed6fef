import {
  type BatchStage,
  type Catalog,
  type Clock,
  type Deduplicator,
  deadLetterOf,
  iso,
  type LogEntry,
  type Logger,
  type Mail,
  type Mailer,
  type MailSendResult,
  type Metrics,
  messageOf,
  type OutputRecord,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { awaitCatalog } from '../causality.ts';
import { mailExpiryMs } from './expiry.ts';
import { type MailNotice, mailNoticeOf } from './notice.ts';
import { again } from './retry.ts';

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
  readonly emissions: readonly OutputRecord[];
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
  const sending = new Sending(dependencies);
  return async ({ entries }) => {
    const emissions: OutputRecord[] = [];
    for (const entry of entries) {
      const handled = await sending.handle(entry);
      dependencies.metrics.count('tributary_mails_total', { outcome: handled.outcome });
      emissions.push(...handled.emissions);
    }
    return emissions;
  };
}

class Sending {
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
  ): Promise<MailSendResult | { readonly kind: 'unavailable'; readonly reason: string }> {
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
    return { outcome, emissions: [deadLetterOf('mail', entry, error, iso(clock()))] };
  }

  #tellOfWaiting(): void {
    const now = this.#parts.elapsed();
    if (now - this.#toldAt < TELL_EVERY_MS) return;
    this.#toldAt = now;
    this.#parts.logger.warn({}, 'mails wait to be sent: set TRIBUTARY_SMTP_URL and TRIBUTARY_MAIL_FROM');
  }
}
