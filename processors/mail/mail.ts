import {
  type BatchStage,
  type Clock,
  type ConfirmationClaim,
  confirmationMail,
  type Deduplicator,
  deadLetterOf,
  digestMail,
  HEADER,
  iso,
  type LogEntry,
  type Mail,
  type Mailer,
  type MailSendResult,
  messageOf,
  nameId,
  type OutputRecord,
  type Source,
  TOPIC,
  TokenBuckets,
  Unavailable,
} from '@tributary/core';
import { awaitCatalog, catalogPositionOf } from '../catalog-position.ts';
import type { StageParts } from '../stages.ts';
import { gatheredValue, type QueuedNotice, type QueuedRecord, queuedRecordOf } from './queued-notice.ts';

interface MailDependencies
  extends Pick<StageParts, 'catalog' | 'clock' | 'elapsed' | 'logger' | 'metrics' | 'retentionMs'> {
  readonly deduplicator: Deduplicator;
  /** Absent without a configured mail server: mails wait. */
  readonly mailer?: Mailer | undefined;
  /** The link that confirms an address. Absent without a public URL: these mails wait. */
  readonly confirmationLink?: ((claim: ConfirmationClaim) => string) | undefined;
  /** Least time between two mails of an organization to an address, ms. */
  readonly mailEveryMs: number;
  /** Mails of an organization in an hour. */
  readonly mailsPerHour: number;
}

/** Delay of the retry of a mail that the server refused for now, ms. */
const RETRY_MS = 10 * 60_000;

/** Interval of warnings that mails wait for a setting, ms. */
const WARN_EVERY_MS = 3_600_000;
/** Mails that are sent at the same time, each on a connection of its own. */
const CONNECTIONS = 4;
/** A mail that takes longer no longer delays the batch. It goes on, and its retry finds out whether it was sent. */
const PATIENCE_MS = 5_000;
/** Mails that take longer than that, over all organizations: at most one each. */
const MAX_SLOW = 12;
/** How long the second and later mails of organizations in a batch may begin, ms. */
const LATER_TURNS_MS = 1_000;
const DAY_MS = 24 * 3_600_000;
const LINK_DAYS = 3;

/** A notice with the record that it was read from. */
interface Taken {
  readonly notice: QueuedNotice;
  readonly record: QueuedRecord;
}

/** The notices of an organization to an address, oldest first, at least one: they are one mail. */
interface Group extends SharedMail {
  readonly taken: Taken[];
  /** Notices of which only the number is known. */
  more: number;
}

/** Outcomes, which are counted: of a mail, and of a notice that becomes none. */
type Outcome =
  | 'sent'
  | 'slow'
  | 'later'
  | 'waiting'
  | 'gathered'
  | 'refused'
  | 'expired'
  | 'no_address'
  | 'duplicate';

/** `unavailable`: the server does not respond, and notices have expired. `slow`: it has not decided yet. */
type Verdict =
  | MailSendResult
  | { readonly kind: 'unavailable'; readonly reason: string }
  | { readonly kind: 'slow' };

/**
 * The stage `mail`: sends queued notices.
 *
 * - The notices of an organization to an address that are read at a time are one mail. It is sent at once, and the next one
 *   not before `mailEveryMs`, within the organization's share: notices in between wait on the retry topic, as one record.
 * - Organizations take turns: while one has a mail under way its others wait, and no batch waits for a slow mail.
 * - While the server does not respond, the stage pauses, as for any engine.
 * - A mail that is refused for now goes to the retry topic and delays no other.
 * - A mail that is refused for good, or that expired for whatever reason, is dead-lettered: retention never drops a notice
 *   silently.
 * - The notices of a sent mail are marked, and a notice with a mark is not sent again. So a repeated batch repeats a mail only
 *   after a crash between the server's response and its marks, with the same `Message-ID` where the notices are the same.
 */
export function mail(dependencies: MailDependencies): BatchStage['process'] {
  const sender = new MailSender(dependencies);
  return ({ entries }) => sender.process(entries);
}

class MailSender {
  readonly #parts: MailDependencies;
  readonly #shares: MailShares;
  /** Organizations with a mail that takes long. */
  readonly #slow = new Set<string>();
  readonly #warnedAt = new Map<string, number>();

  constructor(parts: MailDependencies) {
    this.#parts = parts;
    const { mailEveryMs: everyMs, mailsPerHour: perHour, elapsed } = parts;
    this.#shares = new MailShares({ everyMs, perHour, elapsed });
  }

  async process(entries: readonly LogEntry[]): Promise<readonly OutputRecord[]> {
    const { catalog, clock } = this.#parts;
    const records = entries.map(queuedRecordOf);
    await awaitCatalog(catalog, entries);
    const now = clock();
    const early = records.filter(({ notBefore }) => notBefore > now);
    const due = await this.#withoutRepeated(records.filter(({ notBefore }) => notBefore <= now));
    const sent = await this.#sendInTurns(this.#grouped(due));
    return [...early.map(passedOn), ...sent];
  }

  /**
   * The notices that were not queued before at another position, and were not sent before. Claims are made once mails can be
   * sent: until then records move to other positions.
   */
  async #withoutRepeated(records: readonly QueuedRecord[]): Promise<readonly Taken[]> {
    const queued = records.filter(
      ({ entry, isGathered }) =>
        this.#parts.mailer !== undefined && entry.position.topic === TOPIC.mail && !isGathered,
    );
    const claims = queued.flatMap(({ entry: { position }, notices }) =>
      notices.map((notice) => ({ ...messageOfNotice('mail', notice), position })),
    );
    const isFirst = await this.#parts.deduplicator.claim(claims);
    const repeated = new Set(queued.filter((_record, index) => isFirst[index] !== true));
    const taken = records
      .filter((record) => !repeated.has(record))
      .flatMap((record) => record.notices.map((notice) => ({ notice, record })));
    const wasSent = await Promise.all(taken.map(({ notice }) => this.#wasSent(notice)));
    const left = taken.filter((_each, index) => wasSent[index] !== true);
    this.#count('duplicate', repeated.size + taken.length - left.length);
    return left;
  }

  async #wasSent(notice: QueuedNotice): Promise<boolean> {
    const { deduplicator } = this.#parts;
    const topics = [TOPIC.mail, TOPIC.mailRetry];
    return (await deduplicator.winner(messageOfNotice('mail-sent', notice), topics)) !== undefined;
  }

  /** The mark is a repeatable effect behind the mail: without it, a repeated batch sends the mail again. */
  async #markSent({ taken }: Group): Promise<void> {
    const { deduplicator, logger } = this.#parts;
    const claims = taken.map(({ notice, record: { entry } }) => ({
      ...messageOfNotice('mail-sent', notice),
      position: entry.position,
    }));
    await deduplicator.claim(claims).catch((error: unknown) => {
      logger.warn({ error: messageOf(error) }, 'a sent mail cannot be marked; it may be sent again');
    });
  }

  #grouped(taken: readonly Taken[]): readonly Group[] {
    const { catalog, logger } = this.#parts;
    const groups = new Map<string, Group>();
    const counted = new Set<QueuedRecord>();
    const seen = new Set<string>();
    for (const each of taken) {
      const { notice, record } = each;
      const { id, organizationId, isLink } = notice;
      if (seen.has(id)) {
        this.#count('duplicate');
        continue;
      }
      seen.add(id);
      const to = notice.recipient(catalog.state);
      if (to === null) {
        this.#count('no_address');
        const about = { notice: id, organization: organizationId };
        logger.info(about, 'a mail is dropped: there is no confirmed address for it');
        continue;
      }
      const name = JSON.stringify([organizationId, isLink, to]);
      const group: Group = groups.get(name) ?? { organizationId, isLink, to, taken: [], more: 0 };
      groups.set(name, group);
      group.taken.push(each);
      if (!counted.has(record)) group.more += record.more;
      counted.add(record);
    }
    const ofGroups = [...groups.values()];
    for (const group of ofGroups)
      group.taken.sort((a, b) => Date.parse(a.notice.at) - Date.parse(b.notice.at));
    return ofGroups;
  }

  async #sendInTurns(groups: readonly Group[]): Promise<readonly OutputRecord[]> {
    const { elapsed, logger, mailer } = this.#parts;
    if (mailer === undefined) {
      if (groups.length > 0 && this.#mayWarn('no mail server'))
        logger.warn({}, 'mails wait to be sent: set TRIBUTARY_SMTP_URL and TRIBUTARY_MAIL_FROM');
      return groups.flatMap((group) =>
        this.#kept(group, 'waiting', 'there was no mail server', waitingRecord),
      );
    }
    const outputRecords: OutputRecord[] = [];
    const left = inTurns(groups);
    const busy = new Set<string>();
    const startedAt = elapsed();
    let failure: { readonly error: unknown } | undefined;
    const next = () => {
      const mayBegin = ({ turn, group }: Turn) =>
        !busy.has(group.organizationId) && (turn === 0 || elapsed() - startedAt < LATER_TURNS_MS);
      const index = left.findIndex(mayBegin);
      return index < 0 ? undefined : left.splice(index, 1)[0]?.group;
    };
    const work = async () => {
      for (let group = next(); group !== undefined && failure === undefined; group = next()) {
        busy.add(group.organizationId);
        try {
          outputRecords.push(...(await this.#attempt(mailer, group)));
        } catch (error) {
          failure = { error };
        } finally {
          busy.delete(group.organizationId);
        }
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, work));
    if (failure !== undefined) throw failure.error;
    return [...outputRecords, ...left.flatMap(({ group }) => this.#gathered(group))];
  }

  async #attempt(mailer: Mailer, group: Group): Promise<readonly OutputRecord[]> {
    const { logger } = this.#parts;
    const isSlow = this.#slow.has(group.organizationId) || this.#slow.size >= MAX_SLOW;
    if (isSlow || !this.#shares.allows(group)) return this.#gathered(group);
    const composed = this.#compose(group);
    if (composed === undefined) return this.#gathered(group);
    const sending = this.#send(mailer, composed, group);
    const verdict = await unlessSlow(sending);
    const about = aboutGroup(group);
    switch (verdict.kind) {
      case 'sent':
        this.#count('sent');
        logger.info(about, 'mail sent');
        return [];
      case 'slow':
        this.#continue(sending, group);
        logger.warn(about, 'the mail server takes long for a mail; others do not wait for it');
        return this.#retried(group, 'slow', 'the mail server took too long');
      case 'refused':
        return [this.#deadLetter(group, 'refused', verdict.reason)];
      case 'unavailable':
        return this.#retried(group, 'later', verdict.reason);
      case 'later':
        logger.warn(
          { ...about, reason: verdict.reason },
          'the mail server refuses a mail for now; it is retried later',
        );
        return this.#retried(group, 'later', verdict.reason, this.#parts.clock() + RETRY_MS);
    }
  }

  /** Rejects as the mailer does, unless notices have expired meanwhile. */
  async #send(mailer: Mailer, composed: Mail, group: Group): Promise<Verdict> {
    try {
      const result = await mailer.send(composed);
      this.#shares.count(group);
      if (result.kind === 'sent') await this.#markSent(group);
      return result;
    } catch (error) {
      const hasExpired = group.taken.some(({ notice }) => this.#isExpired(notice));
      if (!(error instanceof Unavailable && hasExpired)) throw error;
      return { kind: 'unavailable', reason: messageOf(error) };
    }
  }

  /** A mail that takes long ends by itself; its marks tell the retry of its notices that they were sent. */
  #continue(sending: Promise<Verdict>, group: Group): void {
    const about = aboutGroup(group);
    const { logger } = this.#parts;
    this.#slow.add(group.organizationId);
    sending
      .then(
        ({ kind }) => logger.info({ ...about, outcome: kind }, 'a slow mail has ended'),
        (error: unknown) => logger.warn({ ...about, error: messageOf(error) }, 'a slow mail has failed'),
      )
      .finally(() => this.#slow.delete(group.organizationId));
  }

  /** One mail for all notices; undefined where that is not possible yet. */
  #compose({ organizationId, isLink, to, taken, more }: Group): Mail | undefined {
    const { catalog, clock, confirmationLink, logger } = this.#parts;
    const organization = catalog.state.organization(organizationId);
    const [first] = taken;
    if (organization === undefined || first === undefined) return undefined;
    const { id, at } = first.notice;
    if (isLink) {
      if (confirmationLink === undefined) {
        if (this.#mayWarn('no public URL'))
          logger.warn({}, 'mails that confirm an address wait to be sent: set TRIBUTARY_PUBLIC_URL');
        return undefined;
      }
      // By the day, so that a mail that is sent again has the same link.
      const expiresAt = Math.ceil(clock() / DAY_MS) * DAY_MS + LINK_DAYS * DAY_MS;
      const link = confirmationLink({ id, organizationId, email: to, expiresAt });
      return confirmationMail({ id, at: Date.parse(at), link, validDays: LINK_DAYS }, to, organization);
    }
    const mails = taken.flatMap(({ notice }) => notice.compose(catalog.state, to) ?? []);
    const [only] = mails;
    if (only !== undefined && mails.length === 1 && more === 0) return only;
    const digestId = nameId('mail digest', ...mails.map((each) => each.id), more);
    return digestMail({ id: digestId, mails, more }, to, organization);
  }

  #gathered(group: Group): readonly OutputRecord[] {
    return this.#retried(group, 'gathered', 'the organization is beyond its share of mails');
  }

  #retried(group: Group, why: Retry, reason: string, notBefore?: number): readonly OutputRecord[] {
    return this.#kept(group, why, reason, (kept) => retryRecord(entryFor(kept), why, notBefore));
  }

  /** The record that is handled again later, and a dead letter of those notices that have expired. */
  #kept(
    group: Group,
    why: Outcome,
    reason: string,
    recordOf: (kept: Group) => OutputRecord,
  ): readonly OutputRecord[] {
    const expired = group.taken.filter(({ notice }) => this.#isExpired(notice));
    const kept = group.taken.filter((each) => !expired.includes(each));
    if (kept.length === 0) return [this.#deadLetter(group, 'expired', reason)];
    this.#count(why);
    const retried = recordOf({ ...group, taken: kept });
    if (expired.length === 0) return [retried];
    return [this.#deadLetter({ ...group, taken: expired, more: 0 }, 'expired', reason), retried];
  }

  #isExpired({ at }: QueuedNotice): boolean {
    return this.#parts.clock() - Date.parse(at) > mailExpiryMs(this.#parts.retentionMs);
  }

  #deadLetter(group: Group, outcome: 'refused' | 'expired', reason: string): OutputRecord {
    const { logger, clock } = this.#parts;
    const entry = entryFor(group);
    const error = `mail ${outcome}: ${reason}`;
    this.#count(outcome);
    logger.error({ position: entry.position, ...aboutGroup(group), error }, 'a mail is dead-lettered');
    return deadLetterOf('mail', entry, error, iso(clock()));
  }

  #count(outcome: Outcome, by = 1): void {
    if (by > 0) this.#parts.metrics.count('tributary_mails_total', { outcome }, by);
  }

  /** Once an hour for each reason. */
  #mayWarn(reason: string): boolean {
    const now = this.#parts.elapsed();
    if (now - (this.#warnedAt.get(reason) ?? Number.NEGATIVE_INFINITY) < WARN_EVERY_MS) return false;
    this.#warnedAt.set(reason, now);
    return true;
  }
}

function messageOfNotice(kind: 'mail' | 'mail-sent', { id, organizationId }: QueuedNotice) {
  return { workspaceId: organizationId, environment: 'production', messageId: `${kind}:${id}` } as const;
}

function aboutGroup({ organizationId, taken }: Group): Readonly<Record<string, unknown>> {
  return { notice: taken[0]?.notice.id, notices: taken.length, organization: organizationId };
}

interface Turn {
  readonly group: Group;
  /** How many mails of the same organization come before. */
  readonly turn: number;
}

/** First one mail of each organization, then the second ones, and so on. */
function inTurns(groups: readonly Group[]): Turn[] {
  const turns = new Map<string, number>();
  const each = groups.map((group) => {
    const turn = turns.get(group.organizationId) ?? 0;
    turns.set(group.organizationId, turn + 1);
    return { group, turn };
  });
  return each.sort((a, b) => a.turn - b.turn);
}

/** The verdict, or `slow` where it takes too long. Rejects as `sending` does until then. */
function unlessSlow(sending: Promise<Verdict>): Promise<Verdict> {
  const { promise: slow, resolve } = Promise.withResolvers<Verdict>();
  const timer = setTimeout(resolve, PATIENCE_MS, { kind: 'slow' });
  return Promise.race([sending, slow]).finally(() => clearTimeout(timer));
}

/** Why notices are on the retry topic. Value of the `outcome` header. */
type Retry = 'slow' | 'later' | 'gathered';

/** The entry that stands for the notices of a group: that of a single notice unchanged. */
function entryFor({ taken, more }: Pick<Group, 'taken' | 'more'>): LogEntry {
  const [first] = taken;
  if (first === undefined) throw new Error('a mail without notices');
  const { entry, notices, isGathered } = first.record;
  if (taken.length === 1 && notices.length === 1 && more === 0 && !isGathered) return entry;
  const positions = taken.map(({ record }) => catalogPositionOf(record.entry));
  return {
    ...entry,
    value: gatheredIn({ taken, more }),
    headers: { ...entry.headers, [HEADER.catalogPosition]: String(Math.max(...positions)) },
  };
}

/** Without a mail server, records wait in the retry topic, whose delay is short as soon as there is one. */
function waitingRecord(group: Pick<Group, 'taken' | 'more'>): OutputRecord {
  const { key, headers } = entryFor(group);
  return { topic: TOPIC.mailRetry, key, value: gatheredIn(group), headers };
}

function gatheredIn({ taken, more }: Pick<Group, 'taken' | 'more'>): string {
  const notices = taken.map(({ notice }) => notice);
  return gatheredValue(notices, more);
}

function retryRecord(
  { key, value, headers }: LogEntry,
  why: Retry,
  notBefore: number | undefined,
): OutputRecord {
  const { [HEADER.notBefore]: _earlier, ...others } = headers;
  const later = notBefore === undefined ? {} : { [HEADER.notBefore]: String(notBefore) };
  return { topic: TOPIC.mailRetry, key, value, headers: { ...others, [HEADER.outcome]: why, ...later } };
}

/** A record that is due and not to be tried yet. */
function passedOn({ entry: { key, value, headers } }: QueuedRecord): OutputRecord {
  return { topic: TOPIC.mailRetry, key, value, headers };
}

/** The retry topic of mails, which wait there longer while there is no mail server. */
export function mailRetries(
  { mailEveryMs }: Pick<MailDependencies, 'mailEveryMs'>,
  hasMailer: boolean,
): Source {
  const delayMs = hasMailer ? mailEveryMs : RETRY_MS;
  return { topic: TOPIC.mailRetry, dueAt: (appendedAt) => appendedAt + delayMs };
}

/** Part of the retention that a mail may wait; the rest is a reserve for times without processors. */
const SHARE = 3 / 4;

/** The age at which a mail expires, ms: before the retention of the log would drop it. */
function mailExpiryMs(retentionMs: number): number {
  return retentionMs * SHARE;
}

/** A mail, as far as its share is concerned. */
interface SharedMail {
  readonly organizationId: string;
  readonly to: string;
  /** A mail with the link that confirms its address, which may be that of somebody who knows nothing of it. */
  readonly isLink: boolean;
}

interface MailShareOptions {
  /** Least time between two mails of an organization to an address, ms. */
  readonly everyMs: number;
  /** Mails of an organization in an hour; to one address, and of links, a third of it. */
  readonly perHour: number;
  /** A monotonic clock, ms. */
  readonly elapsed: Clock;
}

const HOUR_MS = 3_600_000;
/** Links to one address in an hour, of all organizations: nobody there has agreed to receive them. */
const LINKS_PER_ADDRESS = 4;
/** Links of one organization to one address in an hour: less, so that it does not keep those of another one away. */
const LINKS_PER_ORGANIZATION = 2;

/**
 * The mailbox of an address, as most providers have it: without case, without the tag of the local part, without a dot behind the
 * domain. For limits alone.
 */
function mailboxOf(address: string): string {
  const at = address.lastIndexOf('@');
  const [local = ''] = address.slice(0, Math.max(0, at)).split('+');
  return `${local}@${address.slice(at + 1).replace(/\.+$/, '')}`.toLowerCase();
}

/** The mails that an organization, and an address, may still get. Notices beyond a share wait for the next mail. */
class MailShares {
  readonly #pace: TokenBuckets;
  readonly #organizations: TokenBuckets;
  readonly #addresses: TokenBuckets;
  readonly #links: TokenBuckets;
  readonly #linkAddresses: TokenBuckets;
  readonly #linksOfBoth: TokenBuckets;

  constructor({ everyMs, perHour, elapsed }: MailShareOptions) {
    const buckets = (burst: number, fullInMs: number) =>
      new TokenBuckets({
        perSecond: (burst * 1_000) / fullInMs,
        burst,
        clock: elapsed,
        maxDebtMs: Number.POSITIVE_INFINITY,
      });
    // A bucket of half the rate that refills at half the rate: never more than the rate in an hour.
    const hourly = (mails: number) => buckets(Math.max(1, mails / 2), HOUR_MS);
    this.#pace = buckets(1, everyMs);
    this.#organizations = hourly(perHour);
    this.#addresses = hourly(perHour / 3);
    this.#links = hourly(perHour / 3);
    this.#linkAddresses = hourly(LINKS_PER_ADDRESS);
    this.#linksOfBoth = hourly(LINKS_PER_ORGANIZATION);
  }

  allows(mail: SharedMail): boolean {
    return this.#bucketsOf(mail).every(([buckets, name]) => buckets.waitMs(name, 1) === 0);
  }

  /** Counts a mail that the server has decided about. */
  count(mail: SharedMail): void {
    for (const [buckets, name] of this.#bucketsOf(mail)) buckets.charge(name, 1);
  }

  #bucketsOf({ organizationId, to, isLink }: SharedMail): readonly (readonly [TokenBuckets, string])[] {
    const mailbox = mailboxOf(to);
    const both = `${organizationId} ${mailbox}`;
    return isLink
      ? [
          [this.#pace, `link ${both}`],
          [this.#links, organizationId],
          [this.#linkAddresses, mailbox],
          [this.#linksOfBoth, both],
        ]
      : [
          [this.#pace, both],
          [this.#organizations, organizationId],
          [this.#addresses, both],
        ];
  }
}
