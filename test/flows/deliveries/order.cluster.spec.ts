import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const EVENTS = 300;
const SUBJECTS = 20;
const BACKLOG = 20;

/** Pseudo-random numbers from 0 to 1, the same in each run. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The number of deliveries to a webhook that arrived after a later one of the same subject. */
function overtaken(webhook: Webhook): number {
  const latest = new Map<unknown, number>();
  let count = 0;
  for (const { event } of webhook.deliveries()) {
    const sent = Number(event.message_id.slice(1));
    if (sent < (latest.get(event.user_id) ?? -1)) count += 1;
    else latest.set(event.user_id, sent);
  }
  return count;
}

it('events of one subject arrived in a different order than they were sent: its requests follow each other', async () => {
  const tributary = await startTributary();
  onTestFinished(() => tributary.remove());
  const random = randomNumbers(7);
  /** Of requests that arrived before an earlier one of their subject was answered. */
  const together: string[] = [];
  const receivers: { readonly name: string; readonly webhook: Webhook }[] = [];
  for (const batch_size of [1, 10, 100])
    for (const max_concurrency of [1, 10]) {
      const name = `batches of ${batch_size}, ${max_concurrency} at a time`;
      const underWay = new Set<unknown>();
      const webhook = await startWebhook(({ body }, response) => {
        const subjects = new Set((body.deliveries ?? [body]).map(({ event }) => event.user_id));
        for (const subject of subjects) if (underWay.has(subject)) together.push(name);
        for (const subject of subjects) underWay.add(subject);
        setTimeout(
          () => {
            for (const subject of subjects) underWay.delete(subject);
            response.writeHead(204).end();
          },
          1 + random() * 29,
        );
      });
      onTestFinished(webhook.close);
      const settings = { url: webhook.url, batch_size };
      const destination = { name, type: 'webhook', settings, max_concurrency };
      const { id } = await tributary.owner.post<{ id: string }>('./destinations', destination);
      const rule = { name, destination_id: id, event_types: [], event_names: [], enabled: true };
      await tributary.owner.post('./event-forwarding-rules', { ...rule, transformation_id: null });
      receivers.push({ name, webhook });
    }
  const arrived = () =>
    receivers.map(({ webhook }) => new Set(webhook.deliveries().map(({ id }) => id)).size);
  for (let sent = 0; sent < EVENTS; ) {
    const size = Math.min(EVENTS - sent, 10 + Math.floor(random() * 41));
    const batch = Array.from({ length: size }, (_, n) => ({
      type: 'track',
      event: 'Moved',
      message_id: `m${sent + n}`,
      user_id: `u${Math.floor(random() * SUBJECTS)}`,
    }));
    await tributary.producer.post('./events/batch', { batch });
    sent += size;
    // A destination with a backlog of several seconds has deliveries deferred.
    const wanted = sent === EVENTS ? EVENTS : sent - BACKLOG;
    await eventually(arrived, (counts) => counts.every((count) => count >= wanted), 30_000);
  }
  expect(together).toEqual([]);
  expect(Object.fromEntries(receivers.map(({ name, webhook }) => [name, overtaken(webhook)]))).toEqual(
    Object.fromEntries(receivers.map(({ name }) => [name, 0])),
  );
}, 180_000);
