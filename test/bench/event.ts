import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../helpers/client.ts';

/** A track event of about 450 bytes, as producers send them. Without message_id: the gateway assigns one. */
export function benchEvent(user: number, name = 'Product Viewed'): object {
  return {
    event: name,
    user_id: `user-${user}`,
    timestamp: '2026-01-02T03:04:05.678Z',
    properties: {
      product_id: `507f1f77bcf86cd7994390${user % 100}`,
      sku: 'G-32',
      category: 'Games',
      name: 'Monopoly: 3rd Edition',
      brand: 'Hasbro',
      price: 18.99,
      quantity: 1,
      currency: 'usd',
      url: 'https://www.example.com/product/path',
      position: 3,
    },
    context: {
      locale: 'en-US',
      library: { name: 'bench', version: '1.0.0' },
      page: { path: '/product/path' },
    },
  };
}

/** One event for each user, with these names in turn. */
export function benchBatch(size: number, names: readonly string[] = ['Product Viewed']): object {
  return {
    batch: Array.from({ length: size }, (_, i) => ({
      type: 'track',
      ...benchEvent(i, names[i % names.length]),
    })),
  };
}

/** Events in a request: the gateway's limit. */
const BATCH = 1_000;
const SENDERS = 2;

/** Sends that many events (in thousands), with these names in turn; slows down on the gateway's request. */
export async function sendBacklog(
  producer: Client,
  events: number,
  names?: readonly string[],
): Promise<void> {
  const body = benchBatch(BATCH, names);
  let left = events / BATCH;
  const sender = async () => {
    while (left > 0) {
      left--;
      while ((await producer.call('POST', './events/batch', body)).status !== 202) await sleep(50);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
}

const FOUR = ['Product Viewed', 'Product Added', 'Cart Viewed', 'Order Completed'];

/** Names of events, one for each contract. */
export function benchNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, n) => FOUR[n] ?? `Event ${n}`);
}

/** Patterns shared by contracts: most patterns describe ids of a few forms. */
const PATTERNS = Array.from({ length: 10 }, (_, n) => `^[0-9a-f]{${n + 10},24}$`);

/** A typical contract for the events of `event.ts`, as a creation request; each has another schema. */
export function benchContract(name: string, n: number) {
  return {
    name,
    event_type: 'track',
    event_name: name,
    schema_definition: {
      properties: {
        product_id: { type: 'string', required: true, pattern: PATTERNS[n % PATTERNS.length] },
        sku: { type: 'string', required: true },
        category: { type: 'string', enum: ['Games', 'Toys', 'Books'] },
        name: { type: 'string' },
        brand: { type: 'string' },
        price: { type: 'number', required: true, minimum: -n },
        quantity: { type: 'integer', required: true, minimum: 1 },
        currency: { type: 'string', enum: ['usd', 'eur'] },
        url: { type: 'string', format: 'uri' },
        position: { type: 'integer' },
      },
    },
    enforcement_mode: 'block',
    undeclared_fields: 'warn',
  } as const;
}
