import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Environment, TailFollower } from '@tributary/core';
import type { Admitted } from '../../authentication/access.ts';
import { commentFrame, type EndReason, endFrame, eventFrame, noticeFrame, openingFrame } from './frames.ts';

/** Bytes that wait for the connection before no more are made for it. */
const BUFFERED_BYTES = 16 * 1024;
/** How long a client may take to read the rest of a stream that ended, ms. */
const LINGER_MS = 1_000;

export interface LiveStreamOptions {
  readonly admitted: Admitted;
  /** Events of this one alone. */
  readonly environment: Environment | undefined;
  readonly response: ServerResponse;
  /** From 0 to 1. */
  readonly random: number;
  /** The client has read what it was sent. */
  readonly onRoom: () => void;
}

/** What one pump did. */
export interface Pumped {
  readonly events: number;
  /** Events that are kept no more and were told to be missed; of those nobody counted, none. */
  readonly missed: number;
  /** Whether there may be more to send at once. */
  readonly more: boolean;
}

const NOTHING: Pumped = { events: 0, missed: 0, more: false };

/**
 * One open stream. It asks its follower for more only once its client has read what it was sent, so what it holds does
 * not grow with how slowly that is.
 */
export class LiveStream {
  readonly admitted: Admitted;
  readonly body: Readable;
  readonly #options: LiveStreamOptions;
  #follower: TailFollower | undefined;
  #hasRoom = true;
  /** Ms; since when there was no room. */
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
        if (this.#hasRoom) return;
        this.#hasRoom = true;
        options.onRoom();
      },
    });
    this.#push([openingFrame(options.random)], now);
  }

  follow(follower: TailFollower): void {
    this.#follower = follower;
  }

  /** Sends what comes next, about so many characters of it, if there is room. */
  pump(maxCharacters: number, now: number): Pumped {
    if (!this.#hasRoom || this.#ended || this.#follower === undefined) return NOTHING;
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
    return { events, missed, more: items.length > 0 && this.#hasRoom };
  }

  /** Says that it is still there, where it is time to. */
  comment(everyMs: number, now: number): void {
    if (now - this.#commentedAt < everyMs || !this.#hasRoom || this.#ended) return;
    this.#commentedAt = now;
    this.#push([commentFrame(this.#follower?.place)], now);
  }

  /** How long its client has read nothing of what there was to read, ms. */
  stalledFor(now: number): number {
    return this.#hasRoom ? 0 : now - this.#fullSince;
  }

  /** Tells why, ends, and cuts the connection where the client does not read that. Resolves once it is over. */
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

  /** Its connection is gone. */
  close(): void {
    this.#ended = true;
    this.#follower?.close();
  }

  #push(frames: readonly Buffer[], now: number): void {
    if (frames.length === 0) return;
    this.#hasRoom = this.body.push(frames.length === 1 ? frames[0] : Buffer.concat(frames));
    if (!this.#hasRoom) this.#fullSince = now;
  }
}
