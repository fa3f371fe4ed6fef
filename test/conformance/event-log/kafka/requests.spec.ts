import { setTimeout } from 'node:timers/promises';
import { NO_LOGGER } from '@tributary/core';
import { KafkaClient } from '@tributary/infra/adapters/event-log/kafka';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { deleteTopics, withAdmin } from '../../../helpers/kafka.ts';
import { eventually } from '../suite/log-contents.ts';

const brokers = engines()?.kafkaBrokers ?? '';
const connection = { brokers: brokers.split(','), clientId: 'tests' };

const TRANSACTION_TIMEOUT_MS = 15_000;

type Producer = Awaited<ReturnType<KafkaClient['initProducer']>>;
type RecordBatch = Awaited<
  ReturnType<KafkaClient['fetch']>
>['responses'][number]['partitions'][number]['batches'][number];
type Config = Readonly<Record<string, string>>;

async function makeTopic(topic: string, config: Config = {}): Promise<void> {
  const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
  await withAdmin(brokers, async (admin) => {
    await admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: 1, configEntries }] });
    // kafkajs's own wait fails while a broker does not know the new topic, and a broker names itself as the leader some time
    // before it leads. Only one that leads has offsets.
    const hasLeader = async () => (await admin.fetchTopicOffsets(topic)).length === 1;
    await eventually(() => hasLeader().catch(() => false), 'the topic has no leader', 10_000);
  });
}

describe.skipIf(engines() === undefined)('requests of our own on a broker', () => {
  let topic: string;
  let client: KafkaClient;
  let other: KafkaClient;

  beforeAll(() => {
    [client, other] = [0, 1].map(() => new KafkaClient({ connection, logger: NO_LOGGER })) as [
      KafkaClient,
      KafkaClient,
    ];
  });
  afterAll(() => Promise.all([client, other].map((each) => each.close())));
  beforeEach(() => {
    topic = `${freshPrefix()}requests`;
  });
  afterEach(() => withAdmin(brokers, (admin) => deleteTopics(admin, [topic])));

  /** Repeats a request while its coordinator completes the previous transaction, or is only starting itself. */
  async function coordinated<Answer>(request: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      try {
        return await request();
      } catch (thrown) {
        if (!/CONCURRENT_TRANSACTIONS|COORDINATOR|LOAD_IN_PROGRESS/.test(String(thrown))) throw thrown;
        await setTimeout(5);
      }
    }
  }

  const initProducer = (transactionalId: string): Promise<Producer> =>
    coordinated(() => client.initProducer(transactionalId, TRANSACTION_TIMEOUT_MS));

  describe('a position stored in a transaction', () => {
    beforeEach(() => makeTopic(topic));

    const join = (as: KafkaClient, memberId = '') =>
      as.joinGroup(
        {
          groupId: topic,
          memberId,
          sessionTimeout: 6_000,
          rebalanceTimeout: 10_000,
          protocol: 'spec',
          topics: [topic],
          userData: '',
        },
        () => {},
      );

    /** Joins alone; the generation is complete. */
    async function joinAlone(as: KafkaClient, memberId = '') {
      const { generationId, memberId: id } = await coordinated(() => join(as, memberId));
      const member = { groupId: topic, memberId: id, generationId };
      await as.syncGroup(member, [{ memberId: id, partitions: [{ topic, partitions: [0] }] }]);
      return member;
    }

    type Member = Awaited<ReturnType<typeof joinAlone>>;

    const begin = () => initProducer(topic);

    async function commit(producer: Producer, member: Member, offset: number): Promise<void> {
      await client.addGroup(producer, topic);
      const position = { topic, partition: 0, offset, metadata: '' };
      await client.commitInTransaction({ producer, member, position });
      await client.endTransaction(producer);
    }

    const stored = async () =>
      (await client.fetchOffsets(topic, [{ topic, partition: 0 }])).get(`${topic}/0`)?.offset;

    it('is taken of a member of the present generation', async () => {
      const member = await joinAlone(client);
      await commit(await begin(), member, 7);
      await expect.poll(stored).toBe(7);
      await client.leaveGroup(topic, member.memberId);
    });

    it('is refused of a member that left', async () => {
      const left = await joinAlone(client);
      await client.leaveGroup(topic, left.memberId);
      const stays = await joinAlone(other);
      await expect(commit(await begin(), left, 7)).rejects.toThrow('UNKNOWN_MEMBER_ID');
      expect(await stored()).toBeUndefined();
      await other.leaveGroup(topic, stays.memberId);
    });

    it('is refused of an older generation', async () => {
      const older = await joinAlone(client);
      const newer = await joinAlone(client, older.memberId);
      expect(newer.generationId).toBeGreaterThan(older.generationId);
      await expect(commit(await begin(), older, 7)).rejects.toThrow('ILLEGAL_GENERATION');
      expect(await stored()).toBeUndefined();
      await commit(await begin(), newer, 9);
      await expect.poll(stored).toBe(9);
      await client.leaveGroup(topic, newer.memberId);
    });

    it('is taken while the next generation is being made, and refused once it is there', async () => {
      const member = await joinAlone(client);
      const joining = join(other);
      await eventually(
        () =>
          client.heartbeat(member).then(
            () => false,
            (thrown: unknown) => String(thrown).includes('REBALANCE_IN_PROGRESS'),
          ),
        'the group does not change',
      );
      await commit(await begin(), member, 7);
      await expect.poll(stored).toBe(7);
      const [mine, theirs] = await Promise.all([join(client, member.memberId), joining]);
      await expect(commit(await begin(), member, 8)).rejects.toThrow('ILLEGAL_GENERATION');
      // Until it gets its assignment in the new generation, a member continues with its old one.
      await commit(await begin(), { ...member, generationId: mine.generationId }, 9);
      await expect.poll(stored).toBe(9);
      await client.leaveGroup(topic, mine.memberId);
      await other.leaveGroup(topic, theirs.memberId);
    });

    it('is refused of a former owner also if that fences after its successor, which fences again and continues', async () => {
      const former = await joinAlone(client);
      await client.leaveGroup(topic, former.memberId);
      const successor = await joinAlone(other);
      const fenced = await begin();
      await expect(commit(await begin(), former, 100)).rejects.toThrow('UNKNOWN_MEMBER_ID');
      await expect(commit(fenced, successor, 7)).rejects.toThrow(/PRODUCER_(EPOCH|FENCED)/);
      const again = await begin();
      expect(await stored()).toBeUndefined();
      await commit(again, successor, 7);
      await expect.poll(stored).toBe(7);
      await other.leaveGroup(topic, successor.memberId);
    });
  });

  describe('a fetch', () => {
    const messages = (key: string, count: number) =>
      Array.from({ length: count }, (_, i) => ({
        key: i % 5 === 4 ? null : `${key}${i}`,
        value: Buffer.from(JSON.stringify({ key, i, text: 'é'.repeat(i % 70) })),
        headers: i % 2 === 0 ? { 'catalog-position': String(i), empty: '' } : {},
      }));

    /** Appends, in a transaction if a producer is given. */
    async function append(
      written: ReturnType<typeof messages>,
      producer?: Producer,
      firstSequence = 0,
    ): Promise<void> {
      const { answer } = await client.produce(await client.leaderId(topic, 0), {
        ...producer,
        acks: -1,
        timeout: 10_000,
        topicData: [{ topic, partitions: [{ partition: 0, firstSequence, messages: written }] }],
      });
      expect((await answer).topics[0]?.partitions[0]?.errorCode).toBe(0);
    }

    async function transaction(name: string, written: ReturnType<typeof messages>, end: 'commit' | 'abort') {
      const producer = await initProducer(`${topic}.${name}`);
      await client.addPartitions(producer, [{ topic, partitions: [0] }]);
      await append(written, producer);
      if (end === 'commit') await client.endTransaction(producer);
      else await initProducer(`${topic}.${name}`);
    }

    const isEmpty = ({ records, isControl }: RecordBatch) => records.length === 0 && !isControl;

    async function fetch(offset: number, maxBytes = 1_048_576) {
      const { responses } = await client.fetch(await client.leaderId(topic, 0), {
        waitMs: 0,
        maxBytes: 8_388_608,
        partitions: [{ topic, partition: 0, offset, maxBytes }],
      });
      const [partition] = responses[0]?.partitions ?? [];
      if (partition === undefined) throw new Error('no answer for the partition');
      return partition;
    }

    it('has all batches, and names aborted transactions', async () => {
      await makeTopic(topic);
      await append(messages('plain', 100));
      await transaction('a', messages('committed', 10), 'commit');
      await transaction('b', messages('aborted', 10), 'abort');
      await append(messages('last', 200));
      // The marker of a transaction is written after its end is confirmed.
      const unread = async () => {
        const { highWatermark, batches } = await fetch(0);
        return highWatermark - 1 - (batches.at(-1)?.lastOffset ?? -1);
      };
      await expect.poll(unread).toBe(0);
      const whole = await fetch(0);
      const records = whole.batches.flatMap((batch) => batch.records);
      const written = [
        ...messages('plain', 100),
        ...messages('committed', 10),
        ...messages('aborted', 10),
        ...messages('last', 200),
      ];
      expect(records).toMatchObject(written);
      expect(whole.batches.filter(({ isAbort }) => isAbort)).toHaveLength(1);
      expect(whole.abortedTransactions).toHaveLength(1);
      // Cut anywhere: within a batch, and within the bytes of a record.
      for (const [offset, maxBytes] of [
        [50, 1_048_576],
        [105, 2_000],
        [130, 3_333],
        [300, 100],
      ] as const) {
        const { batches } = await fetch(offset, maxBytes);
        expect(whole.batches).toEqual(expect.arrayContaining([...batches]));
        expect(batches.length).toBeGreaterThan(0);
      }
      expect(await fetch(1_000_000)).toMatchObject({ errorCode: 1, batches: [] });
    });

    it('gets past batches that compaction emptied', {
      timeout: 120_000,
    }, async () => {
      await makeTopic(topic, {
        'cleanup.policy': 'compact',
        'segment.ms': '100',
        'min.cleanable.dirty.ratio': '0.01',
        'max.compaction.lag.ms': '100',
      });
      const [record] = messages('key', 1);
      if (record === undefined) throw new Error('a message was made');
      // A compacted batch is kept while it is its producer's last one.
      await transaction('a', [record], 'commit');
      const isEmptied = async () => {
        // Each append begins a segment, because only closed segments are compacted.
        await append([record]);
        await setTimeout(500);
        return (await fetch(0)).batches.some(isEmpty);
      };
      await eventually(isEmptied, 'nothing is compacted', 90_000);
      expect((await fetch(0)).batches.find(isEmpty)).toMatchObject({ isTransactional: true });
    });
  });
});

describe.skipIf(engines() === undefined)('a broker', () => {
  it('tells the free space of its disks', async () => {
    const client = new KafkaClient({ connection, logger: NO_LOGGER });
    try {
      const [nodeId = -1] = await client.nodeIds();
      const ofTopic = (topic: string) => client.logDirectories(nodeId, [{ topic, partitions: 3 }]);
      expect(await ofTopic('no-such-topic')).toEqual([]);
      const directories = await ofTopic('__consumer_offsets');
      expect(directories.length).toBeGreaterThan(0);
      for (const { free, size } of directories) {
        expect(free).toBeGreaterThan(0);
        expect(size).toBeGreaterThanOrEqual(free);
      }
    } finally {
      await client.close();
    }
  });
});
