import { MessageChannel } from 'node:worker_threads';
import { NO_LOGGER } from '@tributary/core';
import { openInProcessLiveTail, openLinkedLiveTail } from '@tributary/infra';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../helpers/client.ts';
import { batch, events, follow, LIMITS, type LiveTailHarness } from '../suite/harness.ts';
import { liveTailConformance } from '../suite/live-tail.conformance.ts';

/** Stages and gateway in one thread. */
const harness: LiveTailHarness = {
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
const linkedHarness: LiveTailHarness = {
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

liveTailConformance(harness);
liveTailConformance(linkedHarness);

it('sends a thread only the scopes that it follows, and a change once until it has read', async () => {
  const { port1, port2 } = new MessageChannel();
  const writer = openInProcessLiveTail({ logger: NO_LOGGER, limits: LIMITS, links: [port1] });
  onTestFinished(() => writer.close());
  let messages = 0;
  port2.on('message', () => messages++);
  await writer.append(batch(events(0, 100)));
  port2.postMessage({ type: 'watch', workspaceId: 'another' });
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (let n = 100; n < 200; n++) await writer.append(batch(events(n, n + 1)));
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(messages).toBe(0);
  port2.postMessage({ type: 'watch', workspaceId: events(0, 1)[0]?.workspaceId });
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (let n = 200; n < 300; n++) await writer.append(batch(events(n, n + 1)));
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(messages).toBe(1);
});

it('notifies followers when the thread that keeps the tails ends or hangs', async () => {
  const { port1, port2 } = new MessageChannel();
  const { port1: silent, port2: toSilent } = new MessageChannel();
  onTestFinished(() => silent.close());
  const writer = openInProcessLiveTail({ logger: NO_LOGGER, limits: LIMITS, links: [port1] });
  const reader = openLinkedLiveTail({ port: port2, logger: NO_LOGGER, limits: LIMITS });
  onTestFinished(() => reader.close());
  const following = await follow(reader);
  await writer.close();
  await eventually(
    () => following.items,
    (items) => items.length > 0,
  );
  expect(following.items).toEqual([{ kind: 'interrupted' }]);
  const hanging = openLinkedLiveTail({ port: toSilent, logger: NO_LOGGER, timeoutMs: 50 });
  onTestFinished(() => hanging.close());
  await expect(follow(hanging)).rejects.toMatchObject({ code: 'unavailable' });
});
