import { durationText } from '../../shared/quantities.ts';
import type { Status } from '../../shared/status-badge.tsx';
import type { Destination, DestinationHealth } from './queries.ts';

const BECAUSE: Readonly<Record<NonNullable<DestinationHealth['because']>, string>> = {
  circuit_open: 'It failed so often that deliveries wait before it is tried again.',
  failing: 'Most attempts fail.',
  behind: 'More deliveries are deferred than made.',
  waiting: 'Deliveries wait too long.',
  gone: 'It answered 410 Gone.',
};

type Switches = Pick<Destination, 'enabled' | 'paused' | 'paused_because'>;

/** The status of a destination in a word: its switches (disabled, paused) take precedence over measured health. */
export function statusOf(destination: Switches, health: DestinationHealth | undefined): Status {
  const { enabled, paused, paused_because } = destination;
  if (!enabled)
    return {
      label: 'Disabled',
      tone: 'neutral',
      detail: 'Nothing is delivered, and no deliveries are kept for later.',
    };
  if (paused && paused_because !== null)
    return {
      label: 'Paused: gone',
      tone: 'bad',
      detail: 'It answered 410 Gone. Deliveries wait until it is resumed.',
    };
  if (paused) return { label: 'Paused', tone: 'warning', detail: 'Deliveries wait until it is resumed.' };
  if (health === undefined) return { label: 'Enabled', tone: 'neutral' };
  if (health.state === 'bad')
    return {
      label: 'Unhealthy',
      tone: 'bad',
      detail: health.because === null ? 'Most deliveries do not arrive.' : BECAUSE[health.because],
    };
  if (health.circuit === 'open') return { label: 'Circuit open', tone: 'bad', detail: BECAUSE.circuit_open };
  if (!health.active && health.last_delivered_at === null)
    return { label: 'Idle', tone: 'neutral', detail: 'No delivery in the last minutes.' };
  return { label: 'Healthy', tone: 'good' };
}

/** The number of waiting deliveries, with the age of the oldest: `12, oldest 3 min`. */
export function backlogOf({ waiting, oldest_waiting_ms }: DestinationHealth): string {
  if (waiting === 0) return 'none';
  const oldest = oldest_waiting_ms === null ? '' : `, oldest ${durationText(oldest_waiting_ms)}`;
  return `${waiting.toLocaleString('en')}${oldest}`;
}
