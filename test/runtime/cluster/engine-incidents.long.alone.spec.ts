// Runs alone in the long form: it checks the deliveries of five processes.
import { setTimeout as sleep } from 'node:timers/promises';
import { TOPIC } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { jsonOf, readCommitted } from '../../chaos/java-reader.ts';
import { Client, eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { withAdmin } from '../../helpers/kafka.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { drained, scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

const PARTITIONS = 3;
const PROCESSORS = 3;
const SENDERS = 4;
/**
 * Work in flight at the end of a process may be delivered again: positions without output records are
 * committed twice a second.
 */
const IN_HAND_MS = 2_500;
const TOPIC_RESOURCE = 2;
const brokers = engines()?.kafkaBrokers ?? '';

/**
 * Operators' interventions on Kafka while two gateways and three processors work, some of which are killed
 * meanwhile.
 */
describe.skipIf(engines() === undefined)('actions of operators on Kafka', () => {
  const prefix = freshPrefix();
  const environment: Record<string, string> = {};
  const gateways: ServerProcess[] = [];
  const processors: ServerProcess[] = [];
  const acknowledged = new Set<string>();
  const refused = new Map<string, number>();
  const kills: number[] = [];
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let webhook: Webhook;
  let producers: readonly Client[] = [];
  let owner = new Client('', '');
  let next = 0;

  beforeAll(async () => {
    folder = await temporaryFolder();
    webhook = await startWebhook();
    Object.assign(environment, clusterEnvironment(prefix), {
      TRIBUTARY_DATA_DIR: folder.path,
      TRIBUTARY_PARTITIONS: String(PARTITIONS),
    });
    const urls: string[] = [];
    // One after the other: five concurrent starts would exceed their time limits on a busy machine.
    for (let n = 0; n < 2; n++) {
      const gateway = new ServerProcess(['gateway'], environment);
      gateways.push(gateway);
      urls.push(await readyAt(gateway));
    }
    for (let n = 0; n < PROCESSORS; n++) {
      startProcessors(1);
      await Promise.all(processors.map(readyAt));
    }
    const workspace = await openWorkspace(urls[0] ?? '', folder.path, 'Incidents');
    owner = workspace.owner;
    producers = urls.map((url) => workspace.producer.at(url));
    await forwardTo(owner, webhook.url, 'Paid');
  }, 300_000);
  afterAll(async () => {
    await Promise.all([...gateways, ...processors].map((one) => one.stop()));
    await webhook.close();
    await removePrefix(prefix);
    await folder.remove();
  });

  function startProcessors(count: number): void {
    for (let n = 0; n < count; n++) processors.push(new ServerProcess(['processor'], environment));
  }

  /** Kills processors, the newest ones last. */
  async function kill(count: number): Promise<void> {
    kills.push(Date.now());
    await Promise.all(processors.splice(0, count).map((one) => one.kill()));
  }

  /**
   * Sends events during the work, each to one of the gateways, retried until it is acknowledged or rejected
   * for good.
   */
  async function underLoad(work: () => Promise<void>, kib: (n: number) => number = () => 0): Promise<void> {
    let sending = true;
    const senders = Array.from({ length: SENDERS }, async () => {
      while (sending) {
        const n = next++;
        const message_id = `m${n}`;
        const properties = { n, filling: 'x'.repeat(kib(n) * 1024) };
        const body = { event: 'Paid', message_id, user_id: `u${n % 40}`, properties };
        for (let tries = 0; ; tries++) {
          const { status } = (await producers[(n + tries) % producers.length]?.call(
            'POST',
            './events/track',
            {
              body,
            },
          )) ?? { status: 0 };
          if (status === 202) acknowledged.add(message_id);
          else if (status !== 503) refused.set(message_id, status);
          else {
            await sleep(50);
            continue;
          }
          break;
        }
        await sleep(40);
      }
    });
    try {
      await work();
    } finally {
      sending = false;
      await Promise.all(senders);
    }
  }

  async function settled(): Promise<void> {
    await Promise.all(processors.map(readyAt));
    const admin = await adminOf(processors[0] ?? new ServerProcess([], {}));
    await drained({ metrics: () => scrape(admin) }, 180_000);
  }

  async function setTopics(topics: readonly string[], name: string, value: string): Promise<void> {
    await withAdmin(brokers, (admin) =>
      admin.alterConfigs({
        validateOnly: false,
        resources: topics.map((topic) => ({
          type: TOPIC_RESOURCE,
          name: `${prefix}${topic}`,
          configEntries: [{ name, value }],
        })),
      }),
    );
  }

  /**
   * Each acknowledged event was processed once, counted once, and delivered once, except for repeats of work
   * in flight at a kill.
   */
  async function expectOnce(): Promise<void> {
    const ids = await readCommitted({ brokers, topic: `${prefix}${TOPIC.accepted}` }, ({ headers }) =>
      headers.get('message-id'),
    );
    expect(ids.length - new Set(ids).size).toBe(0);
    const volume = await owner.ok<readonly { event_count: number }[]>('GET', './event-volume?hours=24');
    const counted = volume.reduce((sum, { event_count }) => sum + event_count, 0);
    const arrivals = new Map<string, number[]>();
    for (const { at, body } of webhook.calls)
      for (const { event } of body.deliveries ?? [body])
        arrivals.set(event.message_id, [...(arrivals.get(event.message_id) ?? []), at]);
    const dead = await readCommitted({ brokers, topic: `${prefix}${TOPIC.poison}` }, ({ value }) =>
      jsonOf<{ stage: string }>(value),
    );
    const repeated = [...arrivals].filter(([, at]) => at.length > 1);
    const unexcused = repeated.filter(
      ([, [first = 0]]) => !kills.some((killed) => Math.abs(killed - first) < IN_HAND_MS),
    );
    console.log(
      `${acknowledged.size} acknowledged, ${counted} counted, ${arrivals.size} delivered, ${repeated.length} of them again after a kill, ${refused.size} refused, ${dead.length} given up`,
    );
    expect(counted).toBe(acknowledged.size);
    expect(unexcused).toEqual([]);
    const missing = [...acknowledged].filter((id) => !arrivals.has(id));
    expect(missing.length).toBe(dead.length);
  }

  const deleteGroups = () =>
    withAdmin(brokers, async (admin) => {
      const left = async () =>
        (await admin.listGroups()).groups.map(({ groupId }) => groupId).filter((id) => id.startsWith(prefix));
      expect((await left()).length).toBeGreaterThan(5);
      // Killed members count until their sessions end.
      await eventually(
        async () => {
          for (const id of await left()) await admin.deleteGroups([id]).catch(() => {});
          return left();
        },
        (groups) => groups.length === 0,
        90_000,
      );
    });

  it('deleted groups, with processors killed before and after: nothing is counted or delivered again', async () => {
    await underLoad(async () => {
      await eventually(async () => webhook.calls.length > 300, Boolean, 60_000);
      await kill(PROCESSORS);
      await deleteGroups();
      startProcessors(PROCESSORS);
      const before = webhook.calls.length;
      await eventually(async () => webhook.calls.length > before + 300, Boolean, 150_000);
      await kill(1);
      startProcessors(1);
    });
    await settled();
    await expectOnce();
  }, 400_000);

  it('a lowered max.message.bytes: the large event alone is refused, and no process ends', async () => {
    const before = processors.map(({ pid }) => pid);
    await setTopics(['events.production', TOPIC.accepted, TOPIC.deliveries], 'max.message.bytes', '30000');
    await underLoad(
      async () => {
        await sleep(10_000);
        await kill(1);
        startProcessors(1);
        await sleep(5_000);
      },
      (n) => (n % 50 === 7 ? 60 : 0),
    );
    expect(refused.size).toBeGreaterThan(2);
    expect(new Set(refused.values())).toEqual(new Set([413]));
    await settled();
    expect(processors.slice(0, PROCESSORS - 1).map(({ pid }) => pid)).toEqual(before.slice(1));
    await expectOnce();
    await setTopics(['events.production', TOPIC.accepted, TOPIC.deliveries], 'max.message.bytes', '4194304');
  }, 400_000);

  it('deleted records of topics that were worked off, and deleted groups after that: nothing is repeated', async () => {
    await kill(PROCESSORS);
    await withAdmin(brokers, async (admin) => {
      for (const topic of ['events.production', TOPIC.deliveries]) {
        const name = `${prefix}${topic}`;
        const ends = await admin.fetchTopicOffsets(name);
        await eventually(
          () =>
            admin
              .deleteTopicRecords({
                topic: name,
                partitions: ends.map(({ partition, high }) => ({ partition, offset: high })),
              })
              .then(
                () => true,
                () => false,
              ),
          Boolean,
        );
      }
    });
    await deleteGroups();
    startProcessors(PROCESSORS);
    await underLoad(() => sleep(5_000));
    await settled();
    await expectOnce();
  }, 400_000);
});
