import type { AlertWatch, WatchedEvents } from '../alerts/alert.ts';
import type { Organization } from '../catalog/entities.ts';
import type { BadReason } from '../delivery/destination-health.ts';
import { iso } from '../primitives/time.ts';
import type { AlertNotice, DeletionNotice, DestinationNotice } from './notices.ts';

/** One mail, as plain text to one address. */
export interface Mail {
  /** A UUID. A mail that is sent again has the same `Message-ID` and the same bytes. */
  readonly id: string;
  /** Time of the reported event, epoch ms. */
  readonly at: number;
  /** One plain address. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/**
 * `sent`: the server accepted the mail. `refused`: the server will never accept it, e.g. because the mailbox does not
 * exist. `later`: the server does not accept this mail now, though it may accept others. A `reason` contains neither
 * an address nor mail content.
 */
export type MailSendResult =
  | { readonly kind: 'sent' }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'later'; readonly reason: string };

/**
 * Sends mails through a mail server.
 *
 * Promises: fields cannot inject headers or recipients, whatever characters they contain: a mail that cannot be sent
 * safely is `refused`. No password goes over an unencrypted connection.
 *
 * Errors: `Unavailable` when the server does not answer or rejects this client (credentials, certificate, sender
 * address). That says nothing about the mail, and the server may have accepted it; send it again. Where the server
 * fails on one mail but otherwise answers, the result is `later`, so that this mail does not block others; it too may
 * have been accepted.
 *
 * An implementer must not: report a mail as sent before the server accepted all of it, or put an address, mail
 * content or a password into an error, a reason or a log.
 */
export interface Mailer {
  send(mail: Mail): Promise<MailSendResult>;
  /** Waits for the mail under way. Idempotent. */
  close(): Promise<void>;
}

const NAME_LENGTH = 100;

const WORDS: Readonly<Record<BadReason, string>> = {
  circuit_open: 'its circuit is open: after too many failures no requests are made for now',
  failing: 'most requests fail',
  behind: 'more deliveries are postponed than delivered',
  waiting: 'deliveries wait too long for a request',
  gone: 'it answered 410 Gone and was paused',
  access_refused: 'its service does not accept its tokens any more, and it was paused',
  rate_limited: 'it refuses most requests for their rate',
};

/** The mail about one health change of a destination: what, since when, last errors. No link, setting or event. */
export function destinationMail(
  { id, at, workspace, destination, turn }: DestinationNotice,
  to: string,
): Mail {
  const name = plain(destination.name);
  const isBad = turn.state === 'bad';
  const headline = isBad ? `Destination unhealthy: ${name}` : `Destination healthy again: ${name}`;
  const oldest = turn.oldest_waiting_ms;
  const text = [
    isBad ? `Deliveries to ${name} fail or wait too long.` : `Deliveries to ${name} succeed again.`,
    '',
    `Workspace:      ${plain(workspace.name)} (${workspace.id})`,
    `Destination:    ${name} (${plain(destination.type)}, ${destination.id})`,
    `Since:          ${turn.since}`,
    ...(turn.because === null ? [] : [`Why:            ${WORDS[turn.because]}`]),
    `Delivered:      ${turn.delivered_per_second} a second`,
    `Failed:         ${turn.failed_per_second} a second`,
    ...(oldest === null ? [] : [`Oldest waiting: ${Math.round(oldest / 1_000)} s`]),
    '',
    ...(turn.last_errors.length === 0 ? [] : ['Last errors:', ...turn.last_errors.map(line), '']),
    turn.because === 'gone'
      ? 'It is paused. Its deliveries wait until it is resumed (paused: false).'
      : turn.because === 'access_refused'
        ? 'It is paused. Its deliveries wait until somebody connects it again, in the console or by the API.'
        : isBad
          ? 'Its deliveries are retried on the retry schedule. Another mail follows when it is healthy again.'
          : 'The waiting deliveries are being sent.',
    '',
  ].join('\n');
  return { id, at: Date.parse(at), to, subject: headline, text };
}

/** The mail about one change of an alert: what is watched, its numbers, and which time they are of. */
export function alertMail({ id, at, workspace, alert, turn }: AlertNotice, to: string): Mail {
  const name = plain(alert.name);
  const isFiring = turn.state === 'firing';
  const { watch } = alert;
  const text = [
    isFiring ? `${what(watch)}.` : `${name} has recovered.`,
    '',
    `Workspace:   ${plain(workspace.name)} (${workspace.id})`,
    `Alert:       ${name} (${alert.id})`,
    `Environment: ${alert.environment}`,
    ...watched(watch),
    `Measured:    ${amount(watch, turn.value)}`,
    ...(turn.expected === null ? [] : [`Expected:    ${amount(watch, turn.expected)}`]),
    `Limit:       ${amount(watch, turn.limit)}`,
    `From:        ${turn.from}`,
    `Until:       ${turn.until}`,
    '',
    isFiring ? 'Another mail follows when it recovers.' : 'No action is needed.',
    '',
  ].join('\n');
  const subject = isFiring ? `Alert: ${name}` : `Recovered: ${name}`;
  return { id, at: Date.parse(at), to, subject, text };
}

function what(watch: AlertWatch): string {
  switch (watch.kind) {
    case 'volume':
      return `There are ${watch.direction === 'below' ? 'fewer' : 'more'} events than at this hour of the week before`;
    case 'silence':
      return `No event has arrived for ${watch.minutes} minutes`;
    case 'violations':
      return 'Too large a share of the events violates its contract';
    case 'delivery_rate':
      return 'Too small a share of the deliveries is made';
    case 'backlog':
      return 'Events wait too long to be delivered';
  }
}

/** The events or the destination that an alert watches; nothing where it watches all. */
function watched(watch: AlertWatch): readonly string[] {
  if ('destination_id' in watch)
    return watch.destination_id === null ? [] : [`Destination: ${watch.destination_id}`];
  const { source_id, event_type, event_name }: WatchedEvents = watch;
  const event = [event_type ?? '', event_name === null ? '' : plain(event_name)].filter(
    (part) => part !== '',
  );
  return [
    ...(source_id === null ? [] : [`Source:      ${source_id}`]),
    ...(event.length === 0 ? [] : [`Event:       ${event.join(' ')}`]),
  ];
}

function amount({ kind }: AlertWatch, value: number): string {
  switch (kind) {
    case 'volume':
    case 'silence':
      return `${Math.round(value)} events`;
    case 'violations':
    case 'delivery_rate':
      return `${Math.round(value * 10_000) / 100} %`;
    case 'backlog':
      return `${Math.round(value)} minutes`;
  }
}

function line({ at, reason }: DestinationNotice['turn']['last_errors'][number]): string {
  return `  ${at}  ${plain(reason)}`;
}

/** Sanitises names chosen by users and destinations: on one line, bounded, and not shown as a link. */
function plain(text: string): string {
  return shortened(oneLine(text), NAME_LENGTH).replaceAll('://', ': //');
}

/** Notices that a digest lists, and that it has in full, the newest in both cases. */
export const DIGEST_LISTED = 50;
const DIGEST_FULL = 10;

interface DigestContent {
  readonly id: string;
  /** The mails that it replaces, oldest first, at least one. */
  readonly mails: readonly Mail[];
  /** Notices of which only the number is known. */
  readonly more: number;
}

/** One mail in place of several to the same address: what each reports, and the newest in full. */
export function digestMail(
  { id, mails, more }: DigestContent,
  to: string,
  organization: Pick<Organization, 'name' | 'org_id'>,
): Mail {
  const listed = mails.slice(-DIGEST_LISTED);
  const unlisted = mails.length - listed.length + more;
  const total = mails.length + more;
  const full = mails.slice(-DIGEST_FULL);
  const name = plain(organization.name);
  const text = [
    `${total} notices of ${name} (orgId ${organization.org_id}) in one mail, as they came within a short time.`,
    '',
    ...(unlisted === 0 ? [] : [`  and ${unlisted} more before these:`]),
    ...listed.map(({ at, subject }) => `  ${iso(at)}  ${subject}`),
    '',
    ...(full.length === mails.length ? [] : [`The newest ${full.length} in full:`, '']),
    ...full.flatMap((mail) => [`--- ${mail.subject}`, '', mail.text]),
  ].join('\n');
  const at = Math.max(...mails.map((mail) => mail.at));
  return { id, at, to, subject: `${total} notices of ${name}`, text };
}

const CONFIRMATION_NAME_LENGTH = 40;

/**
 * The mail with the link that confirms its address. Its reader may not know the sender: of what users chose it has only the
 * letters and digits of the organization's name, so it carries no message and no other link.
 */
export function confirmationMail(
  {
    id,
    at,
    link,
    validDays,
  }: Pick<Mail, 'id' | 'at'> & { readonly link: string; readonly validDays: number },
  to: string,
  organization: Pick<Organization, 'name'>,
): Mail {
  const letters = organization.name.replace(/[^\p{L}\p{N}]+/gu, ' ').trim();
  const text = [
    'This address was set to receive notices of an organization on a Tributary server:',
    '',
    `  ${shortened(letters, CONFIRMATION_NAME_LENGTH)}`,
    '',
    'To receive them, open this link and confirm the address there:',
    '',
    `  ${link}`,
    '',
    `It is valid for ${validDays} days. Until then no other mail is sent to this address; if you do not expect`,
    'notices, ignore this mail.',
    '',
  ].join('\n');
  return { id, at, to, subject: 'Confirm this address for notices', text };
}

const SUBJECT_NAME_LENGTH = 100;

/** The mail about deleted profiles: counts, no identities. */
export function deletionMail(
  notice: DeletionNotice,
  to: string,
  organization: Pick<Organization, 'name' | 'org_id'>,
): Mail {
  const { id, at, by, regions, counts } = notice;
  const name = oneLine(organization.name);
  const short = shortened(name, SUBJECT_NAME_LENGTH);
  const text = [
    `Profiles were deleted in ${name} (orgId ${organization.org_id}).`,
    '',
    `Deleted profiles:     ${counts.deleted}`,
    `Identifiers given:    ${counts.requested}`,
    `Without a profile:    ${counts.not_found}`,
    `Regions:              ${regions.map(oneLine).join(', ')}`,
    `When:                 ${oneLine(at)}`,
    `By:                   ${oneLine(by)}`,
    `Request:              ${oneLine(id)}`,
    '',
    'This mail was asked for with the deletion (sendEmailNotification). It names nobody who was deleted.',
    '',
  ].join('\n');
  return { id, at: Date.parse(at), to, subject: `Profiles deleted in ${short}: ${counts.deleted}`, text };
}

/** Replaces line breaks and control characters in names chosen by users. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
}

export function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}...` : text;
}
