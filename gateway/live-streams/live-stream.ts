import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Environment, KeptEvent, TailFollower, TailItem } from '@tributary/core';
import type { Admitted, Refusal } from '../authentication/access.ts';

/** Bytes that are buffered for the connection before the stream stops producing. */
const BUFFERED_BYTES = 16 * 1024;
/** How long a client may take to read the rest of an ended stream, ms. */
const LINGER_MS = 1_000;

interface LiveStreamOptions {
  readonly admitted: Admitted;
  /** Only events of this environment; undefined: all. */
  readonly environment: Environment | undefined;
  readonly response: ServerResponse;
  /** From 0 to 1. */
  readonly random: number;
  /** Called when the client has read what was buffered. */
  readonly onDrained: () => void;
}

/** The result of one pump. */
interface Pumped {
  readonly events: number;
  /** Events past retention that were reported as missed, as far as their number is known. */
  readonly missed: number;
  /** Whether more may be sent at once. */
  readonly more: boolean;
}

const NOTHING: Pumped = { events: 0, missed: 0, more: false };

/**
 * One open stream. It asks its follower for more only once its client has read what was buffered, so its memory does not
 * grow with a slow client.
 */
export class LiveStream {
  readonly admitted: Admitted;
  readonly body: Readable;
  readonly #options: LiveStreamOptions;
  #follower: TailFollower | undefined;
  #canPush = true;
  /** Since when the buffer has been full, ms. */
  #fullSince = 0;
  #commentedAt: number;
  #ended = false;

  constructor(options: LiveStreamOptions, now: number) {
    this.#options = options;
    this.admitted = options.admitted;
    this.#commentedAt = now;
    this.body = new Readable({
      highWaterMark: BUFFERED_BYTES,
      read: () => {
        if (this.#canPush) return;
        this.#canPush = true;
        options.onDrained();
      },
    });
    this.#push([openingFrame(options.random)], now);
  }

  follow(follower: TailFollower): void {
    this.#follower = follower;
  }

  /** Sends about so many characters of what comes next, unless the buffer is full. */
  pump(maxCharacters: number, now: number): Pumped {
    if (!this.#canPush || this.#ended || this.#follower === undefined) return NOTHING;
    const { environment } = this.#options;
    const frames: Buffer[] = [];
    let [events, missed] = [0, 0];
    const items = this.#follower.take(maxCharacters);
    for (const item of items) {
      if (item.kind !== 'event') frames.push(noticeFrame(item));
      else if (environment === undefined || item.event.environment === environment) {
        frames.push(eventFrame(item.event));
        events++;
      }
      if (item.kind === 'missed') missed += item.count ?? 0;
    }
    this.#push(frames, now);
    return { events, missed, more: items.length > 0 && this.#canPush };
  }

  /** Sends a comment to keep the connection alive, if the last one is older than `everyMs`. */
  comment(everyMs: number, now: number): void {
    if (now - this.#commentedAt < everyMs || !this.#canPush || this.#ended) return;
    this.#commentedAt = now;
    this.#push([commentFrame(this.#follower?.lastId)], now);
  }

  /** How long the client has not read from a full buffer, ms. */
  stalledFor(now: number): number {
    return this.#canPush ? 0 : now - this.#fullSince;
  }

  /** Ends the stream with the reason as its last frame; cuts the connection if the client does not read it. Resolves once it is closed. */
  end(reason: EndReason): Promise<void> {
    const { response } = this.#options;
    if (response.closed || response.destroyed) return Promise.resolve();
    const over = new Promise<void>((resolve) => response.once('close', resolve));
    if (!this.#ended) {
      this.#ended = true;
      this.body.push(endFrame(reason));
      this.body.push(null);
      setTimeout(() => this.cut(), LINGER_MS).unref();
    }
    return over;
  }

  cut(): void {
    this.#options.response.destroy();
  }

  /** To be called when the connection is closed. */
  close(): void {
    this.#ended = true;
    this.#follower?.close();
  }

  #push(frames: readonly Buffer[], now: number): void {
    if (frames.length === 0) return;
    this.#canPush = this.body.push(frames.length === 1 ? frames[0] : Buffer.concat(frames));
    if (!this.#canPush) this.#fullSince = now;
  }
}

/** Bounds of the random delay before a client reconnects, ms: clients that were cut off together come back apart. */
const RETRY_MS = [1_000, 3_000] as const;

/** Why the gateway ends a stream. */
type EndReason = Refusal | 'shutting down' | 'too many streams';

/** The frame of an event is encoded once for all streams. */
const encoded = new WeakMap<KeptEvent, Buffer>();

function openingFrame(random: number): Buffer {
  const [least, most] = RETRY_MS;
  return Buffer.from(`retry: ${Math.round(least + (most - least) * random)}\n\n`);
}

function eventFrame(event: KeptEvent): Buffer {
  const known = encoded.get(event);
  if (known !== undefined) return known;
  const frame = Buffer.from(`id: ${event.id}\nevent: event\ndata: ${event.data}\n\n`);
  encoded.set(event, frame);
  return frame;
}

/** The frame of any item other than an event. */
function noticeFrame(notice: Exclude<TailItem, { kind: 'event' }>): Buffer {
  const data = notice.kind === 'missed' ? { count: notice.count ?? null } : {};
  return Buffer.from(`event: ${notice.kind}\ndata: ${JSON.stringify(data)}\n\n`);
}

/**
 * A comment with the id from which a reconnecting client continues: it may be far after the last event that was sent
 * when events of another environment are left out.
 */
function commentFrame(lastId: string | undefined): Buffer {
  return Buffer.from(lastId === undefined ? ': still here\n\n' : `: still here\nid: ${lastId}\n\n`);
}

function endFrame(reason: EndReason): Buffer {
  return Buffer.from(`event: end\ndata: ${JSON.stringify({ reason })}\n\n`);
}
