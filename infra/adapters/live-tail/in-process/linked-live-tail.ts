import type { MessagePort } from 'node:worker_threads';
import {
  InvalidInput,
  type LiveTail,
  type Logger,
  TAIL_LIMITS,
  type TailLimits,
  Unavailable,
} from '@tributary/core';
import { Feeds } from '../feed/feeds.ts';
import type { TailPart, TailSource } from '../feed/source.ts';
import type { FromTails, ToTails } from './link.ts';

/** How long the thread that keeps the tails may take to answer, ms. */
const DEFAULT_TIMEOUT_MS = 5_000;
/** How often it is asked although it told of nothing: how soon it is noticed that it hangs, ms. */
const POLL_MS = 1_000;

export interface LinkedLiveTailOptions {
  readonly port: MessagePort;
  readonly logger: Logger;
  readonly limits?: TailLimits;
  readonly timeoutMs?: number;
}

interface Asked {
  readonly resolve: (part: TailPart) => void;
  readonly reject: (error: Unavailable) => void;
  readonly timer: NodeJS.Timeout;
}

/**
 * `LiveTail` of a thread that only follows: the tails are kept by another thread of the process, in one opened with the
 * other end of the channel as a link. Events are appended there.
 */
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

function linkedSource(
  { port, timeoutMs = DEFAULT_TIMEOUT_MS }: LinkedLiveTailOptions,
  changed: (workspaceId: string) => void,
): TailSource {
  const asked = new Map<number, Asked>();
  let requests = 0;
  let gone = false;
  const send = (message: ToTails) => port.postMessage(message);
  const take = (request: number): Asked | undefined => {
    const found = asked.get(request);
    asked.delete(request);
    clearTimeout(found?.timer);
    return found;
  };
  port.on('message', (message: FromTails) => {
    if (message.type === 'changed') changed(message.workspaceId);
    else take(message.request)?.resolve(message.part);
  });
  port.on('close', () => {
    gone = true;
    for (const request of [...asked.keys()]) take(request)?.reject(new Unavailable('the live tail is gone'));
  });
  port.unref();
  return {
    read(workspaceId, from) {
      if (gone) return Promise.reject(new Unavailable('the live tail is gone'));
      const request = ++requests;
      return new Promise((resolve, reject) => {
        const late = () => take(request)?.reject(new Unavailable('the live tail does not answer'));
        asked.set(request, { resolve, reject, timer: setTimeout(late, timeoutMs) });
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
