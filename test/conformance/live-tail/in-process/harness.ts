import { MessageChannel } from 'node:worker_threads';
import { NO_LOGGER } from '@tributary/core';
import { openInProcessLiveTail, openLinkedLiveTail } from '@tributary/infra';
import type { LiveTailHarness } from '../suite/harness.ts';

/** Stages and gateway in one thread. */
export const harness: LiveTailHarness = {
  name: 'in process',
  async create(limits) {
    const tail = openInProcessLiveTail({ logger: NO_LOGGER, limits });
    return {
      openWriter: async () => tail,
      // There is one tail; a test that closes it closes all readers.
      openReader: async () => tail,
      dispose: () => tail.close(),
    };
  },
};

const READERS = 3;

/** The gateway at the other end of a channel that copies everything, as between threads. */
export const linkedHarness: LiveTailHarness = {
  name: 'in process, across a channel',
  async create(limits) {
    const channels = Array.from({ length: READERS }, () => new MessageChannel());
    const links = channels.map(({ port1 }) => port1);
    const tail = openInProcessLiveTail({ logger: NO_LOGGER, limits, links });
    return {
      openWriter: async () => tail,
      async openReader() {
        const port = channels.shift()?.port2;
        if (port === undefined) throw new Error('more readers than the harness has channels for');
        return openLinkedLiveTail({ port, logger: NO_LOGGER, limits });
      },
      dispose: () => tail.close(),
    };
  },
};
