import type { KafkaConnection } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KafkaSecurity, RunningKafka } from '../../../engines/index.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { ownEngines } from '../../../helpers/own-engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { numbered, numbers, valuesOf } from '../suite/log-contents.ts';
import { batchStage, copyStage, runThrough } from '../suite/stages.ts';
import { openQuickly, timed, topicsOf } from './installation/installation.ts';

describe.skipIf(engines() === undefined)('a Kafka that requires authentication', () => {
  let kafka: RunningKafka;
  beforeAll(async () => {
    kafka = await ownEngines().kafka.start({ secured: true });
  });
  afterAll(() => kafka?.stop());

  function open(connectionOf: (security: KafkaSecurity) => Omit<KafkaConnection, 'clientId'>) {
    if (!kafka.security) throw new Error('it has no secured listeners');
    return openQuickly({ at: connectionOf(kafka.security), prefix: freshPrefix(), topics: topicsOf(1) });
  }

  const mechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const;
  const ways: Record<string, (security: KafkaSecurity) => Omit<KafkaConnection, 'clientId'>> = {
    TLS: ({ tls, ca }) => ({ brokers: [tls], tls: { ca } }),
    ...Object.fromEntries(
      mechanisms.flatMap((mechanism) => [
        [mechanism, ({ sasl, user }: KafkaSecurity) => ({ brokers: [sasl], sasl: { mechanism, ...user } })],
        [
          `${mechanism} over TLS`,
          ({ saslTls, user, ca }: KafkaSecurity) => ({
            brokers: [saslTls],
            tls: { ca },
            sasl: { mechanism, ...user },
          }),
        ],
      ]),
    ),
  };

  it.each(Object.entries(ways))('accepts appends, reads and stages: %s', async (_way, connectionOf) => {
    const log = await open(connectionOf);
    await log.createTopics();
    await log.append(SOURCE, numbered('k', 5));
    await runThrough(log, copyStage());
    expect(await valuesOf(log, TARGET)).toEqual(numbers(5));
    await log.close();
  });

  const strangers: Record<string, [RegExp, (security: KafkaSecurity) => Omit<KafkaConnection, 'clientId'>]> =
    {
      'a certificate nobody vouches for': [
        /self-signed|certificate/,
        ({ tls }) => ({ brokers: [tls], tls: {} }),
      ],
      'no TLS where it is spoken': [/./, ({ tls }) => ({ brokers: [tls] })],
      'no name where one is wanted': [/./, ({ sasl }) => ({ brokers: [sasl] })],
      ...Object.fromEntries(
        mechanisms.map((mechanism) => [
          `a wrong password, ${mechanism}`,
          [
            /uthentication/,
            ({ sasl, user }: KafkaSecurity) => ({
              brokers: [sasl],
              sasl: { mechanism, username: user.username, password: 'wrong' },
            }),
          ],
        ]),
      ),
    };

  it.each(Object.entries(strangers))(
    'is reported with the reason of a refused authentication, without a hang: %s',
    async (_what, [why, connectionOf]) => {
      const log = await open(connectionOf);
      const refused = { code: 'unavailable', message: expect.stringMatching(why) };
      const took = await timed(async () => {
        await expect(log.createTopics()).rejects.toMatchObject(refused);
        await expect(log.append(SOURCE, numbered('k', 1))).rejects.toMatchObject(refused);
        await expect(log.read(SOURCE, 0, 0)).rejects.toMatchObject(refused);
        const run = await log.run(batchStage(async () => []));
        await expect(run.lag()).rejects.toMatchObject(refused);
      });
      console.log(`refused four times in ${took.toFixed()} ms`);
      expect(await timed(() => log.close())).toBeLessThan(4_000);
    },
  );

  it('a broker that stops responding during authentication blocks no caller permanently', {
    timeout: 90_000,
  }, async () => {
    const log = await open(({ sasl, user }) => ({ brokers: [sasl], sasl: { mechanism: 'plain', ...user } }));
    await kafka.pause();
    try {
      await expect(log.append(SOURCE, numbered('k', 1))).rejects.toMatchObject({ code: 'unavailable' });
      expect(await timed(() => log.close())).toBeLessThan(4_000);
    } finally {
      await kafka.resume();
    }
  });
});
