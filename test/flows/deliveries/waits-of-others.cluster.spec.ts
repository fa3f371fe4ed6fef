import { setTimeout as sleep } from 'node:timers/promises';
import { it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary } from '../../helpers/tributary.ts';
import { startWebhook } from '../../helpers/webhook.ts';

const EVENTS = 1_200;

it('deliveries that were deferred during a hiccup of their destination waited behind the retries of another one', async () => {
  const tributary = await startTributary({
    env: { TRIBUTARY_PARTITIONS: '1', TRIBUTARY_RETRY_SCHEDULE: '2s,5m' },
  });
  onTestFinished(() => tributary.remove());
  const down = await startWebhook((_call, response) => response.writeHead(503).end());
  const idle = await startWebhook();
  for (const [name, { url, close }] of Object.entries({ down, idle })) {
    onTestFinished(close);
    const settings = { name, type: 'webhook', settings: { url }, max_concurrency: 4 };
    const { id } = await tributary.owner.post<{ id: string }>('./destinations', settings);
    const rule = { destination_id: id, event_types: [], transformation_id: null, enabled: true };
    await tributary.owner.post('./event-forwarding-rules', { name, event_names: [name], ...rule });
  }
  const send = async (event: string, count: number) => {
    const batch = Array.from({ length: 100 }, (_, n) => ({ type: 'track', event, user_id: `u${n}` }));
    for (let sent = 0; sent < count; sent += 100) await tributary.producer.post('./events/batch', { batch });
  };
  const received = () => new Set(idle.deliveries().map(({ event }) => event.message_id)).size;
  const until = (count: number) => eventually(received, (arrived) => arrived >= count, 100_000);

  await send('idle', 100);
  await until(100);
  const held: (() => void)[] = [];
  idle.behave((_call, response) => held.push(() => response.writeHead(204).end()));
  await send('down', 2_000);
  // By then its deliveries wait for five minutes.
  await sleep(4_000);
  await send('idle', EVENTS);
  await sleep(4_000);
  idle.behave(undefined);
  for (const release of held) release();
  const releasedAt = Date.now();
  await until(100 + EVENTS);
  console.log(`${EVENTS} deliveries were received ${Date.now() - releasedAt} ms after a hiccup of 4 s`);
}, 180_000);
