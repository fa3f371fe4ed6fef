/** Clocks that differ by more are wrong, ms: without NTP they drift by seconds a week. */
export const CLOCK_TOLERANCE_MS = 5_000;

/** A received event is appended within this time, or refused, ms. */
const APPENDED_WITHIN_MS = 60_000;

/**
 * When an event was received, epoch ms: by the clock of its gateway as long as that agrees with `appendedAt`, by which the
 * log stamped its record, else by that stamp. A record that was made later from the received one gives an upper bound alone.
 */
export function receptionTime(receivedAt: number, appendedAt: number, record: 'received' | 'later'): number {
  const isTooLate = receivedAt > appendedAt + CLOCK_TOLERANCE_MS;
  const isTooEarly = record === 'received' && receivedAt < appendedAt - APPENDED_WITHIN_MS;
  return isTooLate || isTooEarly ? appendedAt : receivedAt;
}
