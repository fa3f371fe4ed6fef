import type { RunningKafka } from '../../../../engines/index.ts';
import { freshPrefix } from '../../../../helpers/engines.ts';
import { removeTopics } from '../../../../helpers/kafka.ts';
import { ownEngines } from '../../../../helpers/own-engines.ts';
import { type EventLogHarness, type Medium, TOPICS } from '../../suite/harness.ts';
import { openQuickly } from './installation.ts';

let broker: RunningKafka | undefined;

/** A broker for this suite alone, because the suite pauses it. */
export async function startBroker(): Promise<void> {
  broker = await ownEngines().kafka.start({});
}

export async function stopBroker(): Promise<void> {
  await broker?.stop();
}

function partsOf(medium: Medium): { brokers: string; prefix: string } {
  const { brokers, prefix } = medium;
  if (!brokers || !prefix) throw new Error('no brokers');
  return { brokers, prefix };
}

export const harness: EventLogHarness = {
  module: import.meta.url,
  kills: 3,

  async create() {
    if (!broker) throw new Error('no broker');
    const medium = { brokers: broker.url, prefix: freshPrefix() };
    const log = await harness.open(medium);
    await log.createTopics();
    await log.close();
    return medium;
  },

  open(medium, overrides = {}) {
    const { brokers, prefix } = partsOf(medium);
    return openQuickly({ at: brokers, prefix, topics: TOPICS, appendTimeoutMs: 1_000, ...overrides });
  },

  /** The broker keeps its connections and answers no requests. */
  async outage() {
    await broker?.pause();
    return async () => {
      await broker?.resume();
    };
  },

  async destroy(medium) {
    await broker?.resume(); // a test that failed in an outage left it paused
    const { brokers, prefix } = partsOf(medium);
    await removeTopics(brokers, prefix);
  },
};
