import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { withAdmin } from '../../helpers/kafka.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { type Ran, ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

describe.skipIf(engines() === undefined)('tributary topics --partitions', { timeout: 120_000 }, () => {
  const prefix = freshPrefix();
  const environment = {
    KAFKA_BROKERS: engines()?.kafkaBrokers ?? '',
    TRIBUTARY_PREFIX: prefix,
    TRIBUTARY_PARTITIONS: '2',
    TRIBUTARY_CATALOG_STALENESS: '3s',
    LOG_LEVEL: 'error',
  };
  const topics = (...args: readonly string[]): Promise<Ran> => ranHere(['topics', ...args], environment);
  const inKafka = (topic: string) =>
    withAdmin(environment.KAFKA_BROKERS, async (admin) => {
      const { topics: found } = await admin.fetchTopicMetadata({ topics: [`${prefix}${topic}`] });
      return found[0]?.partitions.length;
    });

  beforeAll(async () => {
    expect((await topics()).code).toBe(0);
  }, 120_000);
  afterAll(() => removePrefix(prefix));

  it('refuses in one line what would lose the order, and has done nothing', async () => {
    const refused = await topics('--partitions', 'events.accepted=4,deliveries=3');
    expect(refused).toEqual({
      code: 1,
      output: '',
      log: 'tributary topics: deliveries has 2 partitions: only multiples keep the order of its keys, e.g. 4\n',
    });
    expect(await inKafka('events.accepted')).toBe(2);
  });

  it('continues after a kill between announcement and adoption, and then has nothing to do', async () => {
    const args = ['--partitions', 'events.accepted=4,deliveries=6'];
    const killed = new ServerProcess(['topics', ...args], environment);
    await killed.printed(/^waiting/m);
    await killed.kill();
    expect(await inKafka('events.accepted')).toBe(4);
    const begun = await topics();
    expect(begun.output).toContain(`exists   ${prefix}events.accepted, 2 partitions`);
    expect(begun.log).toContain('the growth of events.accepted was begun and not finished');

    const grown = await topics(...args);
    expect(grown).toMatchObject({ code: 0, log: '' });
    expect(grown.output).toContain('grown    events.accepted: 2 -> 4 partitions');
    expect(grown.output).toContain('grown    deliveries: 2 -> 6 partitions');
    const again = await topics(...args);
    expect(again.output).not.toMatch(/^(added|waiting|grown)/m);
    expect(again.output).toContain(`exists   ${prefix}deliveries, 6 partitions`);
    expect((await topics('--print')).output).toMatch(/\.?deliveries +6 /);
  });

  it('warns of partitions that a tool of Kafka has added, and adopts them', async () => {
    await withAdmin(environment.KAFKA_BROKERS, (admin) =>
      admin.createPartitions({ topicPartitions: [{ topic: `${prefix}events.accepted`, count: 8 }] }),
    );
    const warned = await topics();
    expect(warned.code).toBe(0);
    expect(warned.log).toContain(
      `${prefix}events.accepted has 8 partitions in Kafka and Tributary uses 4: \`tributary topics --partitions events.accepted=8\` adopts them`,
    );
    expect((await topics('--partitions', 'events.accepted=8')).output).toContain(
      'grown    events.accepted: 4 -> 8',
    );
  });

  it('adds the missing partitions of a topic that was created again', async () => {
    await withAdmin(environment.KAFKA_BROKERS, (admin) =>
      admin.deleteTopics({ topics: [`${prefix}deliveries`], timeout: 10_000 }),
    );
    const anew = await topics();
    expect(anew.output).toContain('added    missing partitions of deliveries: 6');
    expect(await inKafka('deliveries')).toBe(6);
  });

  it('is refused for the log of one machine', async () => {
    const { KAFKA_BROKERS: _brokers, ...embedded } = environment;
    const refused = await ranHere(['topics', '--partitions', '4'], embedded);
    expect(refused.code).toBe(1);
    expect(refused.log).toContain('topics grow on Kafka alone');
  });
});
