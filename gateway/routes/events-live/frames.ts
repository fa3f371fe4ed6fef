import type { KeptEvent, TailItem } from '@tributary/core';
import type { Refusal } from '../../authentication/access.ts';

/** Between these a client waits before it connects again, ms: those that were cut off together come back apart. */
const RETRY_MS = [1_000, 3_000] as const;

/** Why a stream ends while its client still listens. */
export type EndReason = Refusal | 'shutting down' | 'too many streams';

/** An event is written out once for all who are sent it. */
const written = new WeakMap<KeptEvent, Buffer>();

export function openingFrame(random: number): Buffer {
  const [least, most] = RETRY_MS;
  return Buffer.from(`retry: ${Math.round(least + (most - least) * random)}\n\n`);
}

export function eventFrame(event: KeptEvent): Buffer {
  const known = written.get(event);
  if (known !== undefined) return known;
  const frame = Buffer.from(`id: ${event.id}\nevent: event\ndata: ${event.data}\n\n`);
  written.set(event, frame);
  return frame;
}

/** Everything but events. */
export function noticeFrame(notice: Exclude<TailItem, { kind: 'event' }>): Buffer {
  const data = notice.kind === 'missed' ? { count: notice.count ?? null } : {};
  return Buffer.from(`event: ${notice.kind}\ndata: ${JSON.stringify(data)}\n\n`);
}

/**
 * A comment, and with it the place where a client that comes back goes on: it may be far behind the last event it was
 * sent where those of another environment are left out.
 */
export function commentFrame(place: string | undefined): Buffer {
  return Buffer.from(place === undefined ? ': still here\n\n' : `: still here\nid: ${place}\n\n`);
}

export function endFrame(reason: EndReason): Buffer {
  return Buffer.from(`event: end\ndata: ${JSON.stringify({ reason })}\n\n`);
}
