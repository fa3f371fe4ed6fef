import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Kafka, type KafkaConfig, logLevel, type SASLOptions } from 'kafkajs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { isAlive, isGone } from '../../helpers/processes.ts';
import type { KafkaSecurity, RunningKafka } from '../index.ts';

const TOPIC = 'kept';

describe.skipIf(engines() === undefined)('a Kafka of a test', () => {
  let kafka: RunningKafka;
  beforeAll(async () => {
    kafka = await ownEngines().kafka.start({ secured: true });
  });
  afterAll(() => kafka?.stop());

  it('keeps confirmed records over a kill and a restart on the same port', async () => {
    await withAdmin({ brokers: [kafka.url] }, (admin) =>
      admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: 3 }], waitForLeaders: true }),
    );
    const before = { pid: kafka.pid, url: kafka.url };
    await kafka.kill();
    expect(isAlive(before.pid)).toBe(false);
    await kafka.restart();
    expect(kafka.url).toBe(before.url);
    expect(kafka.pid).not.toBe(before.pid);
    expect(await withAdmin({ brokers: [kafka.url] }, (admin) => admin.listTopics())).toContain(TOPIC);
  });

  it('creates no topic that was not requested', async () => {
    await withAdmin({ brokers: [kafka.url] }, async (admin) => {
      await expect(admin.fetchTopicMetadata({ topics: ['nobody-made-it'] })).rejects.toThrow();
    });
  });

  it.each(['plain', 'scram-sha-256', 'scram-sha-512'] as const)(
    'lets its user in by %s',
    async (mechanism) => {
      const { sasl, saslTls, user, ca } = securityOf(kafka);
      const withSasl = { sasl: { mechanism, ...user } as SASLOptions };
      const brokers = async (config: KafkaConfig) =>
        (await withAdmin(config, (admin) => admin.describeCluster())).brokers.length;
      expect(await brokers({ brokers: [sasl], ...withSasl })).toBe(1);
      expect(await brokers({ brokers: [saslTls], ssl: { ca }, ...withSasl })).toBe(1);
    },
  );

  it('refuses another password', async () => {
    const { sasl, user } = securityOf(kafka);
    const wrong = { mechanism: 'scram-sha-256', username: user.username, password: 'wrong' } as const;
    await expect(
      withAdmin({ brokers: [sasl], sasl: wrong }, (admin) => admin.listTopics()),
    ).rejects.toThrow();
  });

  it('identifies itself by TLS', async () => {
    const { tls, ca } = securityOf(kafka);
    expect(await withAdmin({ brokers: [tls], ssl: { ca } }, (admin) => admin.listTopics())).toContain(TOPIC);
    await expect(withAdmin({ brokers: [tls], ssl: true }, (admin) => admin.listTopics())).rejects.toThrow(
      /self-signed/,
    );
  });

  it('leaves no process and no file', async () => {
    const { pid, logFile } = kafka;
    expect(readFileSync(logFile, 'utf8')).toContain('Kafka Server started');
    await kafka.stop();
    expect(isAlive(pid)).toBe(false);
    expect(await isGone(dirname(logFile))).toBe(true);
    await expect(kafka.restart()).rejects.toThrow(/was stopped/);
  });
});

function securityOf({ security }: RunningKafka): KafkaSecurity {
  if (security === undefined) throw new Error('it was started without its secured listeners');
  return security;
}

async function withAdmin<T>(
  config: KafkaConfig,
  work: (admin: ReturnType<Kafka['admin']>) => Promise<T>,
): Promise<T> {
  const admin = new Kafka({ logLevel: logLevel.NOTHING, retry: { retries: 2 }, ...config }).admin();
  try {
    await admin.connect();
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}
