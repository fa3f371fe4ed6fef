import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Environment } from '@tributary/core';
import { type Admitted, refusalNow } from '../authentication/access.ts';
import { accountOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { unavailable } from '../errors/api-error.ts';
import { LiveStream } from './live-stream.ts';
import { Pump } from './pump.ts';
import { COMMENT_EVERY_MS, STALL_TIMEOUT_MS, type StreamSlot, StreamSlots } from './stream-slots.ts';

/** Characters of events that one stream is sent before the next stream's turn. */
const PUMP_CHARACTERS = 16 * 1024;
/** Interval of the checks whether a stream may stay open, ms: a stream has to end within a second. */
const CHECK_EVERY_MS = 250;

type LiveDependencies = Pick<
  GatewayDependencies,
  'liveTail' | 'liveLimits' | 'catalog' | 'trustCatalogForMs' | 'clock' | 'metrics'
>;

export interface LiveRequest {
  readonly admitted: Admitted;
  /** The organization of the workspace. */
  readonly organizationId: string;
  readonly environment: Environment | undefined;
  /** Begins after the event of this id. */
  readonly after: string | undefined;
  readonly response: ServerResponse;
}

/** The live streams that are open at this gateway. */
export class LiveStreams {
  readonly #dependencies: LiveDependencies;
  readonly #open = new Set<LiveStream>();
  /** Slots of open streams and of those that are being opened. */
  readonly #slots: StreamSlots;
  readonly #pump: Pump<LiveStream>;
  #checking: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(dependencies: LiveDependencies) {
    this.#dependencies = dependencies;
    this.#slots = new StreamSlots(dependencies.liveLimits);
    this.#pump = new Pump((stream) => this.#serve(stream), now);
  }

  /** 429 when too many streams are open; `Unavailable` when the tail of the log cannot be read. */
  async open(request: LiveRequest): Promise<Readable> {
    const { admitted, organizationId, environment, after, response } = request;
    if (response.closed) throw unavailable(); // the client has disconnected
    const { caller, workspaceId } = admitted;
    const slot = this.#slots.acquire({ workspaceId, organizationId, accountId: accountOf(caller) });
    this.#report();
    // From here on the end of the connection, which comes in any case, releases the slot.
    let stream: LiveStream | undefined;
    response.once('close', () => this.#forget(slot, stream));
    // A closed writing side counts as a disconnect: browsers disconnect like this, and the stream itself has no end.
    const { socket } = response;
    if (socket?.readableEnded === true) response.destroy();
    else socket?.once('end', () => response.destroy());
    const wake = () => {
      if (stream !== undefined) this.#pump.wake(stream);
    };
    const follower = await this.#dependencies.liveTail.follow(admitted.workspaceId, {
      wake,
      ...(after === undefined ? {} : { after }),
    });
    stream = new LiveStream(
      { admitted, environment, response, random: Math.random(), onDrained: wake },
      now(),
    );
    stream.follow(follower);
    if (response.destroyed || this.#closed) {
      stream.close();
      stream.cut();
      return stream.body;
    }
    this.#open.add(stream);
    const opened = stream;
    slot.evict = () => void opened.end('too many streams');
    this.#checking ??= setInterval(() => this.#check(), CHECK_EVERY_MS).unref();
    wake();
    return stream.body;
  }

  /** Ends all streams, with the reason as their last frame, and opens no more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#pump.stop();
    clearInterval(this.#checking);
    await Promise.all([...this.#open].map((stream) => stream.end('shutting down')));
  }

  #forget(slot: StreamSlot, stream: LiveStream | undefined): void {
    this.#slots.release(slot);
    this.#report();
    if (stream === undefined) return;
    stream.close();
    this.#pump.forget(stream);
    this.#open.delete(stream);
    if (this.#open.size > 0) return;
    clearInterval(this.#checking);
    this.#checking = undefined;
  }

  #report(): void {
    this.#dependencies.metrics.gauge('tributary_live_streams', this.#slots.total);
  }

  #serve(stream: LiveStream): boolean {
    const { metrics } = this.#dependencies;
    const { events, missed, more } = stream.pump(PUMP_CHARACTERS, now());
    if (events > 0) metrics.count('tributary_live_events_sent_total', {}, events);
    if (missed > 0) metrics.count('tributary_live_events_missed_total', {}, missed);
    return more;
  }

  #check(): void {
    const { liveLimits } = this.#dependencies;
    const { commentEveryMs = COMMENT_EVERY_MS, stallTimeoutMs = STALL_TIMEOUT_MS } = liveLimits;
    for (const stream of this.#open) {
      const refusal = refusalNow(stream.admitted, this.#dependencies);
      if (refusal !== undefined) void stream.end(refusal);
      else if (stream.stalledFor(now()) > stallTimeoutMs) stream.cut();
      else stream.comment(commentEveryMs, now());
    }
  }
}

/** A monotonic clock, ms. */
function now(): number {
  return performance.now();
}
