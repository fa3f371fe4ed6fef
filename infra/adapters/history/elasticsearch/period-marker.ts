/** The document of a period's index that says until when it is written to. It is in no list: it has no kind. */
export const MARKER_ID = 'marker';

/**
 * How long a process may go on to put into a period after it said so in the marker, ms. So no put is later than the
 * marker's time and this.
 */
export const LEASE_MS = 60 * 60 * 1000;

/** How far the clocks of processes may be apart, and a put be under way, ms, before an entry could be dropped early. */
const LEEWAY_MS = 60 * 60 * 1000;

export interface Marker {
  /** Epoch ms: the last time a process said that it puts into this period. */
  readonly touched_at: number;
  /** The index is to be deleted and never to be put into again. */
  readonly condemned: boolean;
}

/** Whether everything that was put into the period is past its time. */
export function isExpired({ touched_at }: Marker, now: number, retentionMs: number): boolean {
  return touched_at + LEASE_MS + LEEWAY_MS + retentionMs < now;
}

/** Whether a process that said so at `since` may still put; not so when the clock was set back meanwhile. */
export function isLeased(since: number | undefined, now: number): boolean {
  return since !== undefined && since <= now && now < since + LEASE_MS;
}
