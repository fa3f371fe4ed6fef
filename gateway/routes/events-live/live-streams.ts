import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Environment } from '@tributary/core';
import { type Admitted, refusalNow } from '../../authentication/access.ts';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { unavailable } from '../../errors/api-error.ts';
import { COMMENT_EVERY_MS, PATIENCE_MS } from './limits.ts';
import { LiveStream } from './live-stream.ts';
import { type Place, Places } from './places.ts';
import { Pump } from './pump.ts';

/** Characters of events that one stream is sent at a time. */
const TURN_CHARACTERS = 16 * 1024;
/** How often it is looked whether a stream may stay open, ms: well within the second it may take. */
const LOOK_EVERY_MS = 250;

type LiveDependencies = Pick<
  GatewayDependencies,
  'liveTail' | 'liveLimits' | 'catalog' | 'trustCatalogForMs' | 'clock' | 'metrics'
>;

export interface LiveRequest {
  readonly admitted: Admitted;
  /** Of the workspace. */
  readonly organizationId: string;
  readonly environment: Environment | undefined;
  /** The id behind which to begin. */
  readonly after: string | undefined;
  readonly response: ServerResponse;
}

/** The live streams that are open at this gateway. */
export class LiveStreams {
  readonly #dependencies: LiveDependencies;
  readonly #open = new Set<LiveStream>();
  /** Of open ones and those about to be. */
  readonly #places: Places;
  readonly #pump: Pump<LiveStream>;
  #looking: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(dependencies: LiveDependencies) {
    this.#dependencies = dependencies;
    this.#places = new Places(dependencies.liveLimits);
    this.#pump = new Pump((stream) => this.#serve(stream), now);
  }

  /** 429 where too many are open; `Unavailable` where the tail cannot be had. */
  async open(request: LiveRequest): Promise<Readable> {
    const { admitted, organizationId, environment, after, response } = request;
    if (response.closed) throw unavailable(); // nobody reads it
    const { caller, workspaceId } = admitted;
    const place = this.#places.take({ workspaceId, organizationId, accountId: accountOf(caller) });
    this.#report();
    // From here on the end of the connection, which comes in any case, gives the place back.
    let stream: LiveStream | undefined;
    response.once('close', () => this.#forget(place, stream));
    // A closed writing side counts as a client that left: it is how browsers leave, and a stream has no end to wait for.
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
    stream = new LiveStream({ admitted, environment, response, random: Math.random(), onRoom: wake }, now());
    stream.follow(follower);
    if (response.destroyed || this.#closed) {
      stream.close();
      stream.cut();
      return stream.body;
    }
    this.#open.add(stream);
    const opened = stream;
    place.evict = () => void opened.end('too many streams');
    this.#looking ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    wake();
    return stream.body;
  }

  /** Ends them all, tells why, and takes no more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#pump.stop();
    clearInterval(this.#looking);
    await Promise.all([...this.#open].map((stream) => stream.end('shutting down')));
  }

  #forget(place: Place, stream: LiveStream | undefined): void {
    this.#places.leave(place);
    this.#report();
    if (stream === undefined) return;
    stream.close();
    this.#pump.forget(stream);
    this.#open.delete(stream);
    if (this.#open.size > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  #report(): void {
    this.#dependencies.metrics.gauge('tributary_live_streams', this.#places.total);
  }

  #serve(stream: LiveStream): boolean {
    const { metrics } = this.#dependencies;
    const { events, missed, more } = stream.pump(TURN_CHARACTERS, now());
    if (events > 0) metrics.count('tributary_live_events_sent_total', {}, events);
    if (missed > 0) metrics.count('tributary_live_events_missed_total', {}, missed);
    return more;
  }

  #look(): void {
    const { liveLimits } = this.#dependencies;
    const { commentEveryMs = COMMENT_EVERY_MS, patienceMs = PATIENCE_MS } = liveLimits;
    for (const stream of this.#open) {
      const refusal = refusalNow(stream.admitted, this.#dependencies);
      if (refusal !== undefined) void stream.end(refusal);
      else if (stream.stalledFor(now()) > patienceMs) stream.cut();
      else stream.comment(commentEveryMs, now());
    }
  }
}

/** Ms that never go back. */
function now(): number {
  return performance.now();
}
