// Runs alone in the long form: a dedicated broker takes minutes to expire positions.
import { TOPIC } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readCommitted } from '../../chaos/java-reader.ts';
import type { RunningKafka } from '../../engines/index.ts';
import { type Client, eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { withAdmin } from '../../helpers/kafka.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { drained, scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

/** The shortest retention in Kafka: the positions of a group expire a minute after its last member left. */
const EXPIRING = { 'offsets.retention.minutes': 1, 'offsets.retention.check.interval.ms': 1_000 };
const EXPIRED_WITHIN_MS = 240_000;

describe.skipIf(engines() === undefined)('positions that expire while no processor runs', () => {
  const prefix = freshPrefix();
  let kafka: RunningKafka;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let webhook: Webhook;
  let environment: Readonly<Record<string, string>>;
  let gateway: ServerProcess;
  let processor: ServerProcess;
  let owner: Client;
  let producer: Client;
  let sent = 0;

  const send = async (count: number) => {
    for (const until = sent + count; sent < until; sent++) {
      const event = { event: 'Paid', message_id: `m${sent}`, user_id: `u${sent % 10}` };
      await producer.post('./events/track', event);
    }
  };
  const startProcessor = async () => {
    processor = new ServerProcess(['processor'], environment);
    await readyAt(processor);
  };
  const delivered = () =>
    webhook.calls.flatMap(({ body }) => (body.deliveries ?? [body]).map(({ event }) => event.message_id));

  beforeAll(async () => {
    [kafka, folder, webhook] = await Promise.all([
      ownEngines().kafka.start({ settings: EXPIRING }),
      temporaryFolder(),
      startWebhook(),
    ]);
    environment = {
      ...clusterEnvironment(prefix),
      KAFKA_BROKERS: kafka.url,
      TRIBUTARY_DATA_DIR: folder.path,
    };
    gateway = new ServerProcess(['gateway'], environment);
    const url = await readyAt(gateway);
    await startProcessor();
    ({ owner, producer } = await openWorkspace(url, folder.path, 'Expiring'));
    await forwardTo(owner, webhook.url, 'Paid');
  });
  afterAll(async () => {
    await Promise.all([gateway, processor].map((one) => one.stop()));
    await Promise.all([kafka.stop(), webhook.close(), folder.remove()]);
  });

  it('are found again: each event is accepted, counted and delivered once', async () => {
    await send(200);
    await eventually(delivered, (ids) => ids.length === sent);
    expect(processor.log).toMatch(/offsets\.retention\.minutes/);
    await processor.stop();
    await send(50);

    const positions = () =>
      withAdmin(kafka.url, async (admin) => {
        const topics = await admin.fetchOffsets({ groupId: `${prefix}route` });
        return topics.flatMap(({ partitions }) => partitions).filter(({ offset }) => Number(offset) >= 0);
      });
    expect((await positions()).length).toBeGreaterThan(0);
    await eventually(positions, (left) => left.length === 0, EXPIRED_WITHIN_MS);

    await startProcessor();
    await send(50);
    await eventually(delivered, (ids) => new Set(ids).size === sent);
    await drained({ metrics: async () => scrape(await adminOf(processor)) }, 120_000);

    expect(delivered()).toHaveLength(sent);
    const accepted = await readCommitted(
      { brokers: kafka.url, topic: `${prefix}${TOPIC.accepted}` },
      ({ headers }) => headers.get('message-id'),
    );
    expect(accepted).toHaveLength(sent);
    const volume = await owner.ok<readonly { event_count: number }[]>('GET', './event-volume?hours=24');
    expect(volume.reduce((sum, { event_count }) => sum + event_count, 0)).toBe(sent);
  }, 600_000);
});
