import { randomBytes } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import { type LiveTail, type Logger, TAIL_LIMITS, type TailLimits } from '@tributary/core';
import { Feeds } from '../feed/feeds.ts';
import { serveTails } from './link.ts';
import { Tails } from './tails.ts';

export interface InProcessLiveTailOptions {
  readonly logger: Logger;
  readonly limits?: TailLimits;
  /** Other threads of this process, which follow by `openLinkedLiveTail` with the other end of the channel. */
  readonly links?: readonly MessagePort[];
}

/** `LiveTail` in the memory of this thread. It ends with the process; ids of an earlier one are told to be gone. */
export function openInProcessLiveTail({
  logger,
  limits = TAIL_LIMITS,
  links = [],
}: InProcessLiveTailOptions): LiveTail {
  const life = randomBytes(6).readUIntBE(0, 6).toString(36);
  const tails = new Tails({ limits, elapsed: () => performance.now(), life });
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
