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

async function makeTopic(topic: string): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    await admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: 1 }] });
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

    const begin = () => coordinated(() => client.initProducer(topic, TRANSACTION_TIMEOUT_MS));

    async function commit(producer: Producer, member: Member, offset: number): Promise<void> {
      await client.addGroup(producer, topic);
      const position = { topic, partition: 0, offset, metadata: '' };
      await client.commitInTransaction({ producer, member, position });
      await client.endTransaction(producer);
    }

    const stored = async () =>
      (await client.fetchOffsets(topic, [{ topic, partition: 0 }])).get(`${topic}/0`)?.offset;

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
