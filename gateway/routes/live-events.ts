import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import {
  type Clock,
  ENVIRONMENTS,
  type Environment,
  type KeptEvent,
  type TailFollower,
  type TailItem,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Admitted, type Refusal, refusalNow } from '../authentication/access.ts';
import { accountOf } from '../authentication/caller.ts';
import type { GatewayDependencies, LiveLimits, Routes } from '../dependencies.ts';
import { tooManyRequests, unavailable } from '../errors/api-error.ts';
import { closed, documentedAs, oneOf, operation } from '../resources/schemas.ts';

const liveQuery = closed({
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
});

const liveBody = Type.Unsafe<Readable>({
  type: 'string',
  ...documentedAs({
    type: 'object',
    properties: {
      event: { enum: ['event', 'missed', 'interrupted', 'resumed', 'end'] },
      id: { type: 'string', description: 'For `Last-Event-ID`.' },
      data: { type: 'string', contentMediaType: 'application/json' },
    },
  }),
  description:
    'Server-Sent Events, of which this is one. `event`: one event of the workspace with its `outcome` and `violations`; ' +
    '`missed`: the number of events that were not sent because they are no longer kept (null: unknown); `interrupted` and ' +
    '`resumed`: events in between are not sent; `end`: the reason why the stream ends.',
});

const LIVE = 'events.live';

/**
 * `GET /workspaces/:workspaceId/events/live`: the accepted and rejected events of a workspace as Server-Sent Events. The
 * stream begins with recent events, or after `Last-Event-ID`, and stays open.
 */
export const liveRoutes: Routes = async (app, dependencies) => {
  const streams = new LiveStreams(dependencies);
  // Before the server waits for open connections, as streams do not end by themselves.
  app.addHook('preClose', () => streams.close());

  app.get(
    '/workspaces/:workspaceId/events/live',
    {
      ...operation(LIVE, 'followEvents', 'Follow the events of a workspace as they come', {
        produces: ['text/event-stream'],
        querystring: liveQuery,
        response: { 200: liveBody },
      }),
      // A HEAD route would read the body, which does not end.
      exposeHeadRoute: false,
    },
    async (request, reply) => {
      const body = await streams.open({
        admitted: { caller: request.caller, operation: LIVE, workspaceId: request.workspace.id },
        organizationId: request.workspace.organization_id,
        environment: request.query.environment,
        after: lastEventId(request),
        response: reply.raw,
      });
      return reply
        .code(200)
        .headers({
          'content-type': 'text/event-stream; charset=utf-8',
          'cache-control': 'no-cache, no-transform',
          // nginx and similar proxies buffer responses.
          'x-accel-buffering': 'no',
        })
        .send(body);
    },
  );
};

function lastEventId({ headers }: FastifyRequest): string | undefined {
  const id = headers['last-event-id'];
  return typeof id === 'string' && id !== '' ? id : undefined;
}

/** Characters of events that one stream is sent before the next stream's turn. */
const PUMP_CHARACTERS = 16 * 1024;
/** Interval of the checks whether a stream may stay open, ms: a stream has to end within a second. */
const CHECK_EVERY_MS = 250;

type LiveDependencies = Pick<
  GatewayDependencies,
  'liveTail' | 'liveLimits' | 'catalog' | 'trustCatalogForMs' | 'clock' | 'metrics'
>;

interface LiveRequest {
  readonly admitted: Admitted;
  readonly organizationId: string;
  readonly environment: Environment | undefined;
  /** Begins after the event of this id. */
  readonly after: string | undefined;
  readonly response: ServerResponse;
}

/** The live streams that are open at this gateway. */
class LiveStreams {
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
class LiveStream {
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

  /**
   * Ends the stream with the reason as its last frame; cuts the connection if the client does not read it. Resolves once it
   * is closed.
   */
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

/**
 * Streams get at most this part of each window, ms: a small share of the event loop, which ingestion needs as well,
 * however many streams there are. (The system calls that follow a turn cost about twice the turn itself.)
 */
export const WORK_MS = 2;
export const WINDOW_MS = 100;

/**
 * Serves streams with pending data in turn, immediately, until the share of the window is used up; the next one in turn
 * is the first of the next window.
 */
export class Pump<T> {
  readonly #serve: (one: T) => boolean;
  readonly #elapsed: Clock;
  readonly #waiting = new Set<T>();
  #immediate: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;
  #windowEnd = Number.NEGATIVE_INFINITY;
  #worked = 0;

  /** `serve` sends to one stream and returns whether it may have more. `elapsed`: a monotonic clock, ms. */
  constructor(serve: (one: T) => boolean, elapsed: Clock) {
    this.#serve = serve;
    this.#elapsed = elapsed;
  }

  /** To be called when a stream may have pending data. */
  wake(one: T): void {
    this.#waiting.add(one);
    this.#schedule();
  }

  forget(one: T): void {
    this.#waiting.delete(one);
  }

  stop(): void {
    this.#waiting.clear();
    clearImmediate(this.#immediate);
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#waiting.size === 0 || this.#immediate !== undefined || this.#timer !== undefined) return;
    const rest = this.#worked < WORK_MS ? 0 : this.#windowEnd - this.#elapsed();
    if (rest > 0) this.#timer = setTimeout(() => this.#work(), rest);
    else this.#immediate = setImmediate(() => this.#work());
  }

  #work(): void {
    this.#immediate = undefined;
    this.#timer = undefined;
    const begin = this.#elapsed();
    if (begin >= this.#windowEnd) {
      this.#windowEnd = begin + WINDOW_MS;
      this.#worked = 0;
    }
    const before = this.#worked;
    // A stream with more data goes to the end of the queue.
    for (const one of this.#waiting) {
      this.#waiting.delete(one);
      if (this.#serve(one)) this.#waiting.add(one);
      this.#worked = before + this.#elapsed() - begin;
      if (this.#worked >= WORK_MS) break;
    }
    this.#schedule();
  }
}

/** `Retry-After` while too many streams are open, s. */
const RETRY_AFTER_SECONDS = 5;

interface SlotOwner {
  readonly workspaceId: string;
  readonly organizationId: string;
  /** For an API key, the account that created it: further keys or organizations add no accounts. */
  readonly accountId: string;
}

export class StreamSlot {
  readonly owner: SlotOwner;
  /** Ends the stream that has the slot; undefined until it is open. */
  evict: (() => void) | undefined;

  constructor(owner: SlotOwner) {
    this.owner = owner;
  }
}

/**
 * Bounds the open live streams. When all slots are taken, an account with fewer streams gets a slot of the account with
 * the most, as long as it then has no more than that one: early accounts do not keep others out.
 */
export class StreamSlots {
  readonly #limits: LiveLimits;
  /** By account, in the order of acquisition. */
  readonly #ofAccounts = new Map<string, Set<StreamSlot>>();
  readonly #ofWorkspaces = new Map<string, number>();
  readonly #ofOrganizations = new Map<string, number>();
  #total = 0;

  constructor(limits: LiveLimits) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** 429 with the exceeded limit when there is no slot. */
  acquire(owner: SlotOwner): StreamSlot {
    const { streams, workspaceStreams, organizationStreams, accountStreams } = this.#limits;
    const own = this.#ofAccounts.get(owner.accountId)?.size ?? 0;
    const ofWorkspace = this.#ofWorkspaces.get(owner.workspaceId) ?? 0;
    const ofOrganization = this.#ofOrganizations.get(owner.organizationId) ?? 0;
    const refuse = (quota: string, limit: number) => tooManyRequests(RETRY_AFTER_SECONDS, { quota, limit });
    if (ofWorkspace >= workspaceStreams) throw refuse('live_streams_of_workspace', workspaceStreams);
    if (own >= accountStreams) throw refuse('live_streams_of_account', accountStreams);
    if (ofOrganization >= organizationStreams)
      throw refuse('live_streams_of_organization', organizationStreams);
    if (this.#total >= streams && !this.#makeRoom(own)) throw refuse('live_streams', streams);
    const slot = new StreamSlot(owner);
    const slots = this.#ofAccounts.get(owner.accountId) ?? new Set<StreamSlot>();
    this.#ofAccounts.set(owner.accountId, slots.add(slot));
    this.#ofWorkspaces.set(owner.workspaceId, ofWorkspace + 1);
    this.#ofOrganizations.set(owner.organizationId, ofOrganization + 1);
    this.#total++;
    return slot;
  }

  /** Idempotent. */
  release(slot: StreamSlot): void {
    const { workspaceId, organizationId, accountId } = slot.owner;
    const slots = this.#ofAccounts.get(accountId);
    if (!slots?.delete(slot)) return;
    if (slots.size === 0) this.#ofAccounts.delete(accountId);
    countDown(this.#ofWorkspaces, workspaceId);
    countDown(this.#ofOrganizations, organizationId);
    this.#total--;
  }

  /** Ends the newest stream of the account with the most, in favour of an account with `own` streams. */
  #makeRoom(own: number): boolean {
    let most: ReadonlySet<StreamSlot> = new Set();
    for (const slots of this.#ofAccounts.values()) if (slots.size > most.size) most = slots;
    if (own + 1 >= most.size) return false;
    const evicted = [...most].findLast(({ evict }) => evict !== undefined);
    if (evicted === undefined) return false;
    this.release(evicted);
    evicted.evict?.();
    return true;
  }
}

function countDown(counts: Map<string, number>, name: string): void {
  const count = (counts.get(name) ?? 0) - 1;
  if (count > 0) counts.set(name, count);
  else counts.delete(name);
}

const COMMENT_EVERY_MS = 15_000;
const STALL_TIMEOUT_MS = 60_000;
