import type { Organization } from '../catalog/entities.ts';
import type { BadBecause } from '../delivery/destination-health.ts';
import type { DeletionNotice, DestinationNotice } from './notices.ts';

/** One mail, as plain text to one address. */
export interface Mail {
  /** A UUID. The mail that is sent again is the same mail: it has the same `Message-ID` and the same bytes. */
  readonly id: string;
  /** Epoch ms, of what it tells. */
  readonly at: number;
  /** One address, nothing around it. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/**
 * `sent`: the server has taken it and answers for it from now on. `refused`: it never will, e.g. as there is no such
 * mailbox. `later`: it does not take this mail now, though it may take others. A `reason` holds neither an address nor
 * anything of the mail.
 */
export type MailResult =
  | { readonly kind: 'sent' }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'later'; readonly reason: string };

/**
 * Hands mails to a mail server.
 *
 * Promises: what is in a mail stays where it was put. Whatever characters its fields hold, no further header comes of
 * them and no further recipient: what cannot be sent so is `refused`. No password goes over a connection that is not
 * encrypted.
 *
 * Errors: `Unavailable` when the server does not answer or does not take us (credentials, certificate, sender address):
 * that says nothing about the mail, and the server may have taken it; send it again. Where the server breaks off with
 * one mail though it answers otherwise, that is `later`, so that the mail holds up no other; it too may have been taken.
 *
 * An implementer must not: call a mail sent that the server only began to take, or put an address, a mail's text or a
 * password into an error, a reason or a log.
 */
export interface Mailer {
  send(mail: Mail): Promise<MailResult>;
  /** Waits for the mail under way. Idempotent. */
  close(): Promise<void>;
}

const NAME_LENGTH = 100;

const WORDS: Readonly<Record<BadBecause, string>> = {
  circuit_open: 'so many calls failed that none are made for now (its circuit is open)',
  failing: 'most calls fail',
  behind: 'more deliveries are put off than delivered',
  waiting: 'deliveries wait too long for a call',
  gone: 'it answered 410 Gone, so it was paused',
};

/** The mail that tells of one turn of a destination: what, since when, how it fails. No link, no setting, no event. */
export function destinationMail(
  { id, at, workspace, destination, turn }: DestinationNotice,
  to: string,
): Mail {
  const name = plain(destination.name);
  const isBad = turn.state === 'bad';
  const headline = isBad ? `Destination in trouble: ${name}` : `Destination well again: ${name}`;
  const oldest = turn.oldest_waiting_ms;
  const text = [
    isBad ? `Deliveries to ${name} do not go as they should.` : `Deliveries to ${name} go well again.`,
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
      ? 'Nothing is sent there until somebody lets it go on (paused: false). What is to be delivered waits until then.'
      : isBad
        ? 'What could not be delivered is tried again by and by. You are told when it goes well again.'
        : 'What was put off is delivered by and by.',
    '',
  ].join('\n');
  return { id, at: Date.parse(at), to, subject: headline, text };
}

function line({ at, reason }: DestinationNotice['turn']['last_errors'][number]): string {
  return `  ${at}  ${plain(reason)}`;
}

/** What people and places named things: it breaks no line, and makes no link where a mail is shown. */
function plain(text: string): string {
  return shortened(oneLine(text), NAME_LENGTH).replaceAll('://', ': //');
}

const SUBJECT_NAME_LENGTH = 100;

/** The mail that tells an organization of profiles that were deleted: how many, never who. */
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

/** What people named things themselves must not break lines. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
}

export function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}...` : text;
}
