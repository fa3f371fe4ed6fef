import type { DestinationNotice } from '../delivery/destination-notice.ts';
import type { BadBecause } from '../delivery/health-change.ts';
import type { Mail } from './mailer.ts';
import { oneLine, shortened } from './one-line.ts';

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
