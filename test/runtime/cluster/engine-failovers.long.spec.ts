import { setTimeout as sleep } from 'node:timers/promises';
import { HEADER, TOPIC } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type RunningEngine, startKafkaCluster } from '../../engines/index.ts';
import { eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { withAdmin } from '../../helpers/kafka.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { testMachine } from '../../helpers/own-engines.ts';
import { command } from '../../helpers/redis.ts';
import { PRIMARY, startRedisUnderSentinels } from '../../helpers/redis-sentinel.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { drained, scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { forwardTo, startWebhook } from '../../helpers/webhook.ts';

const SENDERS = 8;
/** Of the events that a sender sends, one of so many is followed by a repetition of an acknowledged one. */
const REPEAT_EVERY = 4;

/**
 * A gateway and two processors, under load while an engine fails over. No process is restarted, and each acknowledged event
 * is accepted once, counted once in the volume and in the funnel, and delivered; repeated calls have the same delivery id.
 */
describe.skipIf(engines() === undefined)('processes whose engine fails over', () => {
  it('Redis under sentinels: a primary that is killed, and one that is replaced and returns before anybody misses it', {
    timeout: 400_000,
  }, async () => {
    const redis = await startRedisUnderSentinels();
    onTestFinished(() => redis.stop());
    const cluster = await startProcesses({ REDIS_URL: redis.url, REDIS_SENTINEL_PRIMARY: PRIMARY });
    await cluster.underLoad(async (goesOn) => {
      await goesOn();
      await redis.primary.kill();
      await goesOn();
      await redis.primary.restart();
      await isReplica(redis.primary);
      await redis.replica.pause();
      await isPrimary(redis.primary);
      // On the connections that it has, it takes commands until the sentinels make it a replica: then it forgets them.
      await redis.replica.resume();
      await isReplica(redis.replica);
      await goesOn();
    });
    await cluster.repeatAll();
    await cluster.expectOnce();
  });

  it('three Kafka brokers: the leader of each step of the path is killed and returns', {
    timeout: 600_000,
  }, async () => {
    const brokers = await startKafkaCluster(testMachine());
    onTestFinished(async () => void (await Promise.all(brokers.map((broker) => broker.stop()))));
    const urls = brokers.map(({ url }) => url).join(',');
    await withAdmin(urls, (admin) =>
      eventually(
        async () => (await admin.describeCluster()).brokers.length,
        (joined) => joined === brokers.length,
      ),
    );
    const cluster = await startProcesses({ KAFKA_BROKERS: urls });
    await cluster.underLoad(async (goesOn) => {
      await goesOn();
      for (const topic of ['events.production', TOPIC.accepted, TOPIC.deliveries]) {
        const leader = await leaderOf(brokers, `${cluster.prefix}${topic}`);
        await leader.kill();
        await goesOn();
        await leader.restart();
        await areInSync(urls, cluster.prefix);
        await goesOn();
      }
    });
    await cluster.expectOnce();
  });
});

async function startProcesses(engineSettings: Readonly<Record<string, string>>) {
  const prefix = freshPrefix();
  const folder = await temporaryFolder();
  onTestFinished(() => folder.remove());
  onTestFinished(() => removePrefix(prefix));
  const webhook = await startWebhook();
  onTestFinished(() => webhook.close());
  const environment = { ...clusterEnvironment(prefix), ...engineSettings, TRIBUTARY_DATA_DIR: folder.path };
  const processes = ['gateway', 'processor', 'processor'].map(
    (role) => new ServerProcess([role], environment),
  );
  onTestFinished(async () => void (await Promise.all(processes.map((one) => one.kill()))));
  const ended: number[] = [];
  for (const [n, one] of processes.entries()) void one.ended().then(() => ended.push(n));
  const [url = ''] = await Promise.all(processes.map(readyAt));
  const admins = await Promise.all(processes.map(adminOf));

  const { owner, producer } = await openWorkspace(url, folder.path, 'Failovers');
  await forwardTo(owner, webhook.url, 'Paid');

  const acknowledged: string[] = [];
  let slowestMs = 0;
  /** Sends an event until it is acknowledged. */
  const send = async (message_id: string) => {
    const startedAt = performance.now();
    const body = { event: 'Paid', message_id, user_id: `u${message_id.length}${message_id.at(-1)}` };
    for (;;) {
      const { status } = await producer.call('POST', './events/track', body);
      if (status === 202) break;
      expect(status).toBe(503);
      await sleep(50);
    }
    slowestMs = Math.max(slowestMs, performance.now() - startedAt);
  };

  return {
    prefix,
    /** `goesOn` resolves once events that were sent after its call have been delivered. */
    async underLoad(work: (goesOn: () => Promise<void>) => Promise<void>): Promise<void> {
      let sending = true;
      let next = 0;
      const senders = Array.from({ length: SENDERS }, async () => {
        for (let own = 0; sending; own++) {
          const message_id = `m${next++}`;
          await send(message_id);
          acknowledged.push(message_id);
          const earlier = acknowledged.at(-1 - Math.floor(Math.random() * 1_000));
          if (own % REPEAT_EVERY === 0 && earlier !== undefined) await send(earlier);
          await sleep(10);
        }
      });
      const goesOn = async () => {
        const startedAt = performance.now();
        const from = next;
        let seen = webhook.calls.length;
        let left = 300;
        await eventually(
          () => {
            const fresh = webhook.calls.slice(seen).flatMap(({ body }) => body.deliveries ?? [body]);
            seen = webhook.calls.length;
            left -= fresh.filter(({ event }) => Number(event.message_id.slice(1)) >= from).length;
            return left;
          },
          () => left <= 0,
          90_000,
        );
        console.log(`300 events were sent and delivered in ${(performance.now() - startedAt).toFixed()} ms`);
      };
      try {
        await work(goesOn);
      } finally {
        sending = false;
        await Promise.all(senders);
      }
    },

    /** Sends every acknowledged event once more. */
    async repeatAll(): Promise<void> {
      const ids = acknowledged.values();
      await Promise.all(
        Array.from({ length: SENDERS }, async () => {
          for (const id of ids) await send(id);
        }),
      );
    },

    async expectOnce(): Promise<void> {
      await drained({ metrics: async () => (await Promise.all(admins.map(scrape))).join('\n') }, 120_000);
      const count = acknowledged.length;
      const accepted = (await entriesOf({ environment }, TOPIC.accepted)).map(
        ({ headers }) => headers[HEADER.messageId] ?? '',
      );
      const acceptedIds = new Set(accepted);
      const delivered = webhook.deliveries();
      const deliveredIds = new Set(delivered.map(({ event }) => event.message_id));
      const hours = await owner.get<readonly { event_count: number }[]>('./event-volume?hours=24');
      const [from, to] = [-6, 1].map((h) => new Date(Date.now() + h * 3_600_000).toISOString());
      const { totals } = await owner.get<{ totals: Readonly<Record<string, number>> }>(
        `./funnel?from=${from}&to=${to}&interval=hour`,
      );
      const delayed = `the slowest after ${slowestMs.toFixed()} ms`;
      const again = `${delivered.length - deliveredIds.size} delivered again`;
      console.log(`${count} acknowledged, ${delayed}; ${totals.duplicate} duplicates; ${again}`);
      const lines = processes.flatMap(({ log }) => log.split('\n'));
      expect({
        ended,
        accepted: accepted.length,
        counted: hours.reduce((sum, { event_count }) => sum + event_count, 0),
        funnel: totals.accepted,
        deliveryIds: new Set(delivered.map(({ id }) => id)).size,
        notAccepted: acknowledged.filter((id) => !acceptedIds.has(id)),
        notDelivered: acknowledged.filter((id) => !deliveredIds.has(id)),
        errors: lines.filter((line) => line.startsWith('{"level":50')),
      }).toEqual({
        ended: [],
        accepted: count,
        counted: count,
        funnel: count,
        deliveryIds: count,
        notAccepted: [],
        notDelivered: [],
        errors: [],
      });
    },
  };
}

const isPrimary = (redis: RunningEngine) => hasRole(redis, /role:master/);
const isReplica = (redis: RunningEngine) => hasRole(redis, /role:slave[\s\S]*master_link_status:up/);

async function hasRole({ url }: RunningEngine, role: RegExp): Promise<void> {
  await eventually(
    async () => String(await command(url, 'INFO', 'replication')),
    (info) => role.test(info),
  );
}

/** The broker that leads the first partition of a topic. */
async function leaderOf(brokers: readonly RunningEngine[], topic: string): Promise<RunningEngine> {
  const urls = brokers.map(({ url }) => url).join(',');
  return withAdmin(urls, async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const leader = topics[0]?.partitions.find(({ partitionId }) => partitionId === 0)?.leader;
    const { brokers: nodes } = await admin.describeCluster();
    const port = nodes.find(({ nodeId }) => nodeId === leader)?.port;
    const broker = brokers.find(({ url }) => url.endsWith(`:${port}`));
    if (broker === undefined) throw new Error(`no broker leads ${topic}`);
    return broker;
  });
}

/** Resolves once every partition below a prefix has all its replicas in sync. */
async function areInSync(urls: string, prefix: string): Promise<void> {
  await withAdmin(urls, (admin) =>
    eventually(
      async () => {
        const topics = (await admin.listTopics()).filter((name) => name.startsWith(prefix));
        const { topics: found } = await admin.fetchTopicMetadata({ topics });
        return found.flatMap(({ partitions }) => partitions.filter(({ isr }) => isr.length < 3));
      },
      (behind) => behind.length === 0,
      90_000,
    ),
  );
}
