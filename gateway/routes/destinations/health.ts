import { type Destination, type DestinationHealth, iso } from '@tributary/core';
import type { Static } from 'typebox';
import type { destinationHealth } from './schemas.ts';

/** `health` is undefined of a destination that no process told of: it rests, or nothing delivers. */
export function presentHealth(
  { id, condition }: Pick<Destination, 'id' | 'condition'>,
  health: DestinationHealth | undefined,
): Static<typeof destinationHealth> {
  return {
    id,
    active: health !== undefined,
    at: timeOf(health?.at),
    state: condition?.state ?? 'well',
    because: condition?.because ?? null,
    state_since: condition?.since ?? null,
    delivered_per_second: health?.delivered_per_second ?? 0,
    failed_per_second: health?.failed_per_second ?? 0,
    put_off_per_second: health?.put_off_per_second ?? 0,
    p50_ms: health?.p50_ms ?? null,
    p99_ms: health?.p99_ms ?? null,
    waiting: health?.waiting ?? 0,
    under_way: health?.under_way ?? 0,
    oldest_waiting_ms: health?.oldest_waiting_ms ?? null,
    circuit: health?.circuit ?? null,
    circuit_since: timeOf(health?.circuit_since),
    last_delivered_at: timeOf(health?.last_delivered_at),
    last_errors: (health?.last_errors ?? []).map(({ at, outcome, reason, status }) => ({
      at: iso(at),
      outcome,
      reason,
      status: status ?? null,
    })),
  };
}

function timeOf(ms: number | null | undefined): string | null {
  return ms == null ? null : iso(ms);
}
