import type { CanonicalEvent } from '@tributary/core';
import { expect } from 'vitest';
import { SENT_WITHIN_MS } from './through-restart.ts';

const SAID = { text: 'Grüße 漢字 🙂', nested: { list: [1, 'two', true], price: 12.5 } };
const FIELDS: Readonly<Record<string, (round: number) => object>> = {
  track: (round) => ({ event: 'Order Completed', properties: { ...SAID, round } }),
  identify: (round) => ({ traits: { ...SAID, round, plan: 'pro' } }),
  page: (round) => ({ name: 'Home', properties: { ...SAID, round, url: 'https://shop.example/' } }),
  group: (round) => ({ group_id: 'acme', traits: { ...SAID, round, employees: 17 } }),
};
const HAPPENED = Date.parse('2026-01-02T03:04:05.678Z');

/** The calls that every SDK supports; each spec checks further calls of its SDK itself. */
export function expectAll(events: readonly CanonicalEvent[] | undefined, name: string, rounds: number): void {
  const expected = Object.entries(FIELDS).flatMap(([type, fields]) =>
    Array.from({ length: rounds }, (_, round) => ({
      type,
      user_id: `${name}-user`,
      ...fields(round),
      context: { app: { name: 'Shop', version: '1.2' } },
    })),
  );
  const inOrder = [...(events ?? [])].sort((a, b) => orderOf(a) - orderOf(b));
  expect(inOrder).toHaveLength(expected.length);
  expect(inOrder).toMatchObject(expected);
  expect(new Set(inOrder.map(({ message_id }) => message_id)).size).toBe(expected.length);
  for (const { timestamp, context } of inOrder) {
    // The same clock: only the time of the request, and the SDK's wait before a retry, is added.
    const late = Date.parse(timestamp) - HAPPENED;
    expect(late).toBeGreaterThanOrEqual(-1);
    expect(late).toBeLessThan(SENT_WITHIN_MS);
    const { timestamp: original, originalTimestamp } = Object(context?.segment);
    // An event that needs no correction has only one time: it was received in the millisecond of its sending, or has an
    // `originalTimestamp` too, which RudderStack's SDK for Node sets to the time of the call.
    expect([original, originalTimestamp, timestamp].map((time) => Date.parse(time))).toContain(HAPPENED);
    expect(context).toMatchObject({ library: { name: expect.any(String), version: expect.any(String) } });
  }
}

function orderOf({ type, properties, traits }: CanonicalEvent): number {
  return Object.keys(FIELDS).indexOf(type) * 1_000_000 + Number((properties ?? traits)?.round);
}
