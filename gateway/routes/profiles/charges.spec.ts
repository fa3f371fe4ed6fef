import { EventEmitter } from 'node:events';
import type { FastifyReply } from 'fastify';
import { expect, it } from 'vitest';
import { ProfileCharges } from './calls.ts';

const [A, B] = [{ id: 'a' }, { id: 'b' }];
const reply = { raw: new EventEmitter() } as unknown as FastifyReply;

it('small writes to a large profile were counted as small: they are charged by what they rewrite', async () => {
  let now = 0;
  const charges = new ProfileCharges(1_000, () => now);
  const write = (of: { id: string }, charge?: number) =>
    charges
      .run(of, reply, async () => (charge === undefined ? {} : { charge }))
      .then((outcome) => charges.charge(of, outcome));
  for (let n = 0; n < 100; n++) await write(B);
  for (let n = 0; n < 2; n++) await write(A, 4_000);
  await expect(write(A, 5_000)).rejects.toMatchObject({
    status: 429,
    retryAfterSeconds: 4,
    fields: { quota: 'large_profiles', limit: 1_000 },
  });
  await write(B, 5_000);
  now = 4_000;
  await write(A);
});

it('charges a search by its large profiles, and by all of a large result', async () => {
  const charges = new ProfileCharges(1_000, () => 0);
  charges.chargeFound(A, Array(1_000).fill(4_000));
  await charges.run(A, reply, async () => {});
  charges.chargeFound(A, [200_000]);
  await expect(charges.run(A, reply, async () => {})).rejects.toMatchObject({ status: 429 });
  charges.chargeFound(B, Array(1_000).fill(30_000));
  await expect(charges.run(B, reply, async () => {})).rejects.toMatchObject({ status: 429 });
});

it('lets another organization pass the large calls of one', async () => {
  const charges = new ProfileCharges(1e9, () => 0);
  charges.charge(A, { charge: 1e6 });
  const ends: (() => void)[] = [];
  const order: string[] = [];
  const call = (of: { id: string }, values?: number) =>
    charges.run(
      of,
      reply,
      () =>
        new Promise<void>((end) => {
          order.push(of.id);
          ends.push(end);
        }),
      values,
    );
  const all = [call(A), call(A), call(A), call(A), call(A), call(B, 500), call(B)];
  await new Promise((resolve) => setImmediate(resolve));
  // The small call of b runs at once, and its large one is next.
  expect(order).toEqual(['a', 'a', 'b']);
  ends[0]?.();
  await new Promise((resolve) => setImmediate(resolve));
  expect(order.at(-1)).toBe('b');
  for (let n = 0; n < all.length; n++) {
    for (const end of ends) end();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
});
