import type { Delivery } from '@tributary/core';
import { Kafka, logLevel } from 'kafkajs';
import { describe, expect } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeTopics, withAdmin } from '../../../helpers/kafka.ts';
import { connectorConformance } from '../suite/connector.conformance.ts';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import { type ConnectorHarness, ENGINE_CONNECTORS, noEngine, type ReceivedBody } from '../suite/harness.ts';
import { networkConformance } from '../suite/network.conformance.ts';

describe.skipIf(engines() === undefined)('on a real engine', () => {
  connectorConformance('kafka', kafkaHarness);
  networkConformance('kafka', kafkaHarness, spoil);
});

async function kafkaHarness(): Promise<ConnectorHarness> {
  const brokers = engines()?.kafkaBrokers ?? noEngine('kafka');
  const [host = '', port = ''] = brokers.split(':');
  const proxy = await startFaultyProxy({ host, port: Number(port), announces: true });
  const topic = `${freshPrefix()}events`;
  await withAdmin(brokers, async (admin) => {
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: false });
    await expect.poll(() => admin.fetchTopicOffsets(topic).catch(() => [])).toHaveLength(1);
  });
  const reader = readerOf(brokers, topic);
  const at = (name: string) => ({
    brokers: [`${name}:${proxy.port}`],
    topic,
    tls: false,
    sasl_mechanism: 'scram-sha-512',
  });
  return {
    settings: at('127.0.0.1'),
    hopeless: at('10.0.0.1'),
    connectors: ENGINE_CONNECTORS,
    ordered: true,
    idempotent: false,
    network: { proxy, at, sharesConnections: true },
    received: reader.received,
    fail: async () => proxy.set('refuse'),
    mend: async () => proxy.set('pass'),
    close: async () => {
      await proxy.close();
      await reader.close();
      await removeTopics(brokers, topic);
    },
  };
}

/** Reads the topic from its beginning, from the first time it is asked. */
function readerOf(brokers: string, topic: string) {
  const kafka = new Kafka({ clientId: 'tests', brokers: brokers.split(','), logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 50 });
  const read: ReceivedBody[] = [];
  let running: Promise<void> | undefined;
  const run = async () => {
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ message }) => void read.push(JSON.parse(String(message.value)) as ReceivedBody),
    });
  };
  return {
    async received() {
      const [end] = await withAdmin(brokers, (admin) => admin.fetchTopicOffsets(topic));
      if (Number(end?.high) === 0) return [];
      running ??= run();
      await running;
      while (read.length < Number(end?.high)) await new Promise((resolve) => setTimeout(resolve, 10));
      return [...read];
    },
    async close() {
      if (running !== undefined) await consumer.disconnect();
    },
  };
}

/** More than a broker accepts in one record. */
function spoil(delivery: Delivery): Delivery {
  return { ...delivery, event: { ...delivery.event, properties: { text: 'x'.repeat(2_000_000) } } };
}
