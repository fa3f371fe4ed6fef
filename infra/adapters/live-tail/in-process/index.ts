import { randomBytes } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import {
  type Clock,
  InvalidInput,
  type LiveTail,
  type Logger,
  TAIL_LIMITS,
  type TailBatch,
  type TailLimits,
  Unavailable,
} from '@tributary/core';
import { Feeds, idOf, KeptEvents, type TailPart, type TailSource } from '../feeds.ts';

/** How long the thread that keeps the tails may take to answer a read, ms. */
const DEFAULT_TIMEOUT_MS = 5_000;
/** Interval of reads without a notification, which detect that the other thread is blocked, ms. */
const POLL_MS = 1_000;

export interface InProcessLiveTailOptions {
  readonly logger: Logger;
  readonly limits?: TailLimits;
  /** Ports to other threads of this process, which follow with `openLinkedLiveTail` on the other end. */
  readonly links?: readonly MessagePort[];
}

/** `LiveTail` in the memory of this thread. It ends with the process; ids of an earlier process count as lost. */
export function openInProcessLiveTail({
  logger,
  limits = TAIL_LIMITS,
  links = [],
}: InProcessLiveTailOptions): LiveTail {
  const processId = randomBytes(6).readUIntBE(0, 6).toString(36);
  const tails = new Tails({ limits, elapsed: () => performance.now(), processId });
  const unlink = links.map((port) => serveTails(tails, port));
  const feeds = new Feeds(
    (changed) => {
      const unlisten = tails.listen(changed);
      return {
        read: async (workspaceId, from) => tails.read(workspaceId, from),
        watch() {},
        unwatch() {},
        close: async () => unlisten(),
      };
    },
    { limits, logger },
  );
  return {
    append: async (batch) => tails.append(batch),
    follow: (workspaceId, options) => feeds.follow(workspaceId, options),
    async close() {
      for (const one of unlink) one();
      await feeds.close();
    },
  };
}

/** Messages of a following thread to the thread that keeps the tails. */
type LinkRequest =
  | { readonly type: 'watch'; readonly workspaceId: string }
  | { readonly type: 'unwatch'; readonly workspaceId: string }
  | {
      readonly type: 'read';
      readonly request: number;
      readonly workspaceId: string;
      readonly from: string | undefined;
    };

type LinkReply =
  | { readonly type: 'changed'; readonly workspaceId: string }
  | { readonly type: 'part'; readonly request: number; readonly part: TailPart };

/**
 * Serves a following thread. Only the parts that it reads are copied to it, and a change is announced once until it has
 * read. So at most one tail per workspace is on its way to it, however many events arrive and however busy it is.
 */
function serveTails(tails: Tails, port: MessagePort): () => void {
  /** Watched workspaces; true when a change was announced and not read yet. */
  const watched = new Map<string, boolean>();
  const send = (message: LinkReply) => port.postMessage(message);
  const unlisten = tails.listen((workspaceId) => {
    if (watched.get(workspaceId) !== false) return;
    watched.set(workspaceId, true);
    send({ type: 'changed', workspaceId });
  });
  port.on('message', (message: LinkRequest) => {
    const { workspaceId } = message;
    if (message.type === 'watch') watched.set(workspaceId, false);
    else if (message.type === 'unwatch') watched.delete(workspaceId);
    else {
      if (watched.has(workspaceId)) watched.set(workspaceId, false);
      send({ type: 'part', request: message.request, part: tails.read(workspaceId, message.from) });
    }
  });
  return () => {
    unlisten();
    port.close();
  };
}

interface LinkedLiveTailOptions {
  readonly port: MessagePort;
  readonly logger: Logger;
  readonly limits?: TailLimits;
  readonly timeoutMs?: number;
}

/** `LiveTail` of a thread that only follows. Another thread of the process keeps the tails, and has the other port. */
export function openLinkedLiveTail(options: LinkedLiveTailOptions): LiveTail {
  const { logger, limits = TAIL_LIMITS } = options;
  const feeds = new Feeds((changed) => linkedSource(options, changed), { limits, logger, pollMs: POLL_MS });
  return {
    async append() {
      throw new InvalidInput('events are appended in the thread that keeps the tails');
    },
    follow: (workspaceId, follow) => feeds.follow(workspaceId, follow),
    close: () => feeds.close(),
  };
}

interface PendingRead {
  readonly resolve: (part: TailPart) => void;
  readonly reject: (error: Unavailable) => void;
  readonly timer: NodeJS.Timeout;
}

function linkedSource(
  { port, timeoutMs = DEFAULT_TIMEOUT_MS }: LinkedLiveTailOptions,
  changed: (workspaceId: string) => void,
): TailSource {
  const pending = new Map<number, PendingRead>();
  let requests = 0;
  let closed = false;
  const send = (message: LinkRequest) => port.postMessage(message);
  const take = (request: number): PendingRead | undefined => {
    const found = pending.get(request);
    pending.delete(request);
    clearTimeout(found?.timer);
    return found;
  };
  port.on('message', (message: LinkReply) => {
    if (message.type === 'changed') changed(message.workspaceId);
    else take(message.request)?.resolve(message.part);
  });
  port.on('close', () => {
    closed = true;
    for (const request of [...pending.keys()])
      take(request)?.reject(new Unavailable('the thread of the live tail has ended'));
  });
  port.unref();
  return {
    read(workspaceId, from) {
      if (closed) return Promise.reject(new Unavailable('the thread of the live tail has ended'));
      const request = ++requests;
      return new Promise((resolve, reject) => {
        const late = () => take(request)?.reject(new Unavailable('the live tail does not answer'));
        pending.set(request, { resolve, reject, timer: setTimeout(late, timeoutMs) });
        send({ type: 'read', request, workspaceId, from });
      });
    },
    watch: (workspaceId) => send({ type: 'watch', workspaceId }),
    unwatch: (workspaceId) => send({ type: 'unwatch', workspaceId }),
    async close() {
      port.close();
    },
  };
}

/** Characters of all tails together; beyond them, the tail that was idle for longest is dropped as a whole. */
const MAX_CHARACTERS = 32 * 1024 * 1024;

interface Tail {
  readonly era: string;
  readonly kept: KeptEvents;
  /** Time of the last append, ms. */
  touchedAt: number;
}

interface TailsOptions {
  readonly limits: TailLimits;
  /** A monotonic clock, ms. */
  readonly elapsed: Clock;
  /** Unique for each process: small letters and digits. */
  readonly processId: string;
}

/**
 * The tails of all workspaces in the memory of one thread. Holds references to the texts of the appended events: events
 * without a follower are neither copied nor parsed.
 */
class Tails {
  readonly #options: TailsOptions;
  /** In the order of the last append, the oldest first. */
  readonly #tails = new Map<string, Tail>();
  /** The offset up to which events were appended (exclusive), by partition. */
  readonly #marks = new Map<string, number>();
  readonly #listeners = new Set<(workspaceId: string) => void>();
  #characters = 0;
  #eras = 0;

  constructor(options: TailsOptions) {
    this.#options = options;
  }

  /** Calls `changed` for each workspace with new events. */
  listen(changed: (workspaceId: string) => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  /** See `LiveTail`. */
  append({ topic, partition, events, end }: TailBatch): number {
    const source = `${topic}/${partition}`;
    const stored = this.#marks.get(source) ?? 0;
    const mark = end !== undefined && stored > end ? 0 : stored;
    const now = this.#options.elapsed();
    this.#dropExpired(now);
    const changed = new Set<string>();
    let [next, isRepeated] = [mark, false];
    for (const { workspaceId, environment, data, offset } of events) {
      if (offset < mark) {
        isRepeated = true;
        continue;
      }
      next = offset + 1;
      const tail = this.#tailOf(workspaceId, now);
      const number = tail.kept.last + 1;
      const before = tail.kept.characters;
      tail.kept.push({ id: idOf(tail.era, 0, number), era: tail.era, number, environment, data });
      this.#characters += tail.kept.characters - before;
      changed.add(workspaceId);
    }
    this.#marks.set(source, next);
    for (const workspaceId of changed) this.#moveToEnd(workspaceId);
    this.#dropIdle();
    for (const listener of this.#listeners) for (const workspaceId of changed) listener(workspaceId);
    return isRepeated ? mark : 0;
  }

  read(workspaceId: string, from: string | undefined): TailPart {
    this.#dropExpired(this.#options.elapsed());
    const tail = this.#tails.get(workspaceId);
    if (tail === undefined) return { events: [], next: from, more: false };
    const [era, number] = (from ?? '').split('-');
    const events = tail.kept.after(era === tail.era ? Number(number) : 0);
    return { events, next: `${tail.era}-${tail.kept.last}`, more: false };
  }

  #tailOf(workspaceId: string, now: number): Tail {
    const known = this.#tails.get(workspaceId);
    if (known !== undefined) {
      known.touchedAt = now;
      return known;
    }
    const era = `${this.#options.processId}${(this.#eras++).toString(36)}`;
    const tail = { era, kept: new KeptEvents(this.#options.limits), touchedAt: now };
    this.#tails.set(workspaceId, tail);
    return tail;
  }

  #moveToEnd(workspaceId: string): void {
    const tail = this.#tails.get(workspaceId);
    if (tail === undefined) return;
    this.#tails.delete(workspaceId);
    this.#tails.set(workspaceId, tail);
  }

  #dropExpired(now: number): void {
    for (const [workspaceId, tail] of this.#tails) {
      if (now - tail.touchedAt <= this.#options.limits.retentionMs) return;
      this.#drop(workspaceId, tail);
    }
  }

  #dropIdle(): void {
    for (const [workspaceId, tail] of this.#tails) {
      if (this.#characters <= MAX_CHARACTERS || this.#tails.size === 1) return;
      this.#drop(workspaceId, tail);
    }
  }

  #drop(workspaceId: string, { kept }: Tail): void {
    this.#characters -= kept.characters;
    this.#tails.delete(workspaceId);
  }
}
