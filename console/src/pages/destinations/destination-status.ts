import { durationText, numberText, perSecondText, plural, shareText } from '../../shared/quantities.ts';
import type { Status, Tone } from '../../shared/status-badge.tsx';
import type { Destination, DestinationHealth } from './queries.ts';

type State = DestinationHealth['state'];

/** The word for each state, the same everywhere. */
export const STATE: Readonly<Record<State, { readonly label: string; readonly tone: Tone }>> = {
  healthy: { label: 'Healthy', tone: 'good' },
  failing: { label: 'Failing', tone: 'bad' },
  retrying: { label: 'Retrying', tone: 'warning' },
  behind: { label: 'Behind', tone: 'warning' },
  no_traffic: { label: 'No traffic', tone: 'neutral' },
  paused: { label: 'Paused', tone: 'warning' },
  disabled: { label: 'Disabled', tone: 'neutral' },
};

/** States in which deliveries do not arrive as they should. */
export const TROUBLED: readonly State[] = ['failing', 'retrying', 'behind'];

const WORST_FIRST: readonly State[] = [...TROUBLED, 'paused', 'healthy', 'no_traffic', 'disabled'];

/** Whether a person has to do something about it. */
export function needsAttention({ state, paused_because }: DestinationHealth): boolean {
  return TROUBLED.includes(state) || (state === 'paused' && paused_because !== null);
}

export function worstFirst(destinations: readonly DestinationHealth[]): readonly DestinationHealth[] {
  const rank = (health: DestinationHealth) =>
    (needsAttention(health) ? 0 : 10) + WORST_FIRST.indexOf(health.state);
  return destinations.toSorted((one, other) => rank(one) - rank(other));
}

/** The state of a destination in a word, with the figures behind it. */
export function statusOf(health: DestinationHealth | undefined): Status {
  if (health === undefined)
    return { label: 'Unknown', tone: 'neutral', detail: 'Its health is not known yet.' };
  const { label, tone } = STATE[health.state];
  const isGone = health.state === 'paused' && health.paused_because !== null;
  const share = health.state === 'failing' && health.failed_share !== null && health.failed_share > 0;
  if (health.warehouse)
    return {
      label: health.state === 'no_traffic' ? 'Idle' : label,
      tone,
      detail: WAREHOUSE_DETAIL[health.state],
    };
  return {
    label: share ? `${label}: ${shareText(health.failed_share ?? 0, 1)}` : label,
    tone: isGone ? 'bad' : tone,
    detail: detailOf(health),
  };
}

/** A warehouse is loaded at intervals, and has no deliveries. */
const WAREHOUSE_DETAIL: Readonly<Record<State, string>> = {
  healthy: 'The loads of the last minutes succeeded.',
  failing: 'Loads fail. Events wait in the log.',
  retrying: 'Loads fail. Events wait in the log.',
  behind: 'It has not been up to date for two of its intervals. Events wait in the log.',
  no_traffic: 'No load was due in the last minutes.',
  paused: 'Nothing is loaded until it is resumed. Events wait in the log.',
  disabled: 'Nothing is loaded until it is enabled. Events wait in the log.',
};

const WHY_PAUSED: Readonly<Record<NonNullable<DestinationHealth['paused_because']>['reason'], string>> = {
  gone: 'It answered 410 Gone. Deliveries wait until it is resumed',
  not_connected: 'It is not connected with its service. Deliveries wait until it is',
  access_refused:
    'Its service does not accept its tokens any more. Deliveries wait until it is connected again',
};

function detailOf(health: DestinationHealth): string {
  const { state, failed_share, retrying, circuit, waiting, under_way, pace_per_second } = health;
  const { delivered_per_second, put_off_per_second, throttled_per_second } = health;
  const waits =
    retrying === null || retrying === 0
      ? ''
      : ` ${plural(retrying, 'delivery waits', 'deliveries wait')} for the next attempt.`;
  switch (state) {
    case 'disabled':
      return 'Nothing is delivered, and no deliveries are kept for later.';
    case 'paused':
      return health.paused_because === null
        ? 'Deliveries wait until it is resumed.'
        : `${WHY_PAUSED[health.paused_because.reason]}.`;
    case 'no_traffic':
      return 'Nothing was sent to it in the last minutes.';
    case 'failing':
      return `${
        failed_share === null || failed_share === 0
          ? 'It failed so often that hardly anything is sent to it.'
          : `${shareText(failed_share, 1)} of the last attempts failed.`
      }${circuit === 'open' ? ' Its circuit is open: deliveries wait before it is tried again.' : ''}${waits}`;
    case 'retrying':
      return throttled_per_second > 0
        ? `It refuses most requests for their rate.${waits}`
        : `Nothing arrived in the last minutes.${waits}`;
    case 'behind':
      if (waiting > 0) return `Deliveries wait for their turn: ${backlogOf(health)}.${waits}`;
      return put_off_per_second > delivered_per_second
        ? `More deliveries are deferred than made.${waits}`
        : `${plural(under_way, 'delivery is', 'deliveries are')} under way, and none has arrived yet.${waits}`;
    case 'healthy':
      return `${
        failed_share === null || failed_share === 0
          ? 'All attempts of the last minutes arrived.'
          : `${shareText(1 - failed_share, 1)} of the last attempts arrived.`
      }${
        pace_per_second === null || throttled_per_second === 0
          ? ''
          : ` It takes about ${perSecondText(pace_per_second)} requests: deliveries wait for their turn.`
      }${waits}`;
  }
}

type Switches = Pick<Destination, 'enabled' | 'paused'>;

/** What a switch that was changed means. */
export function switchedText(before: Switches, after: Switches, isWarehouse = false): string {
  if (isWarehouse)
    return after.enabled && !after.paused
      ? 'Loading goes on where it ended.'
      : `${after.enabled ? 'Paused' : 'Disabled'}. Nothing is loaded; events wait in the log.`;
  if (before.enabled !== after.enabled) {
    if (!after.enabled) return 'Disabled. Nothing is delivered to it.';
    return after.paused
      ? 'Enabled, and still paused: deliveries wait.'
      : 'Enabled. Events from now on are delivered to it.';
  }
  return after.paused ? 'Paused. Deliveries wait.' : 'Resumed. Waiting deliveries are sent as they come due.';
}

/** The number of waiting deliveries, with the age of the oldest: `12, oldest 3 min`. */
export function backlogOf({
  waiting,
  oldest_waiting_ms,
}: Pick<DestinationHealth, 'waiting' | 'oldest_waiting_ms'>): string {
  if (waiting === 0) return 'none';
  const oldest = oldest_waiting_ms === null ? '' : `, oldest ${durationText(oldest_waiting_ms)}`;
  return `${numberText(waiting)}${oldest}`;
}
