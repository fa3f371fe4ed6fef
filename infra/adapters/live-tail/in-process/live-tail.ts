import { randomBytes } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import {
  InvalidInput,
  type LiveTail,
  type Logger,
  TAIL_LIMITS,
  type TailLimits,
  Unavailable,
} from '@tributary/core';
import type { TailPart, TailSource } from '../feed/feed.ts';
import { Feeds } from '../feed/feeds.ts';
import { Tails } from './tails.ts';

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

export interface LinkedLiveTailOptions {
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
