import type { CanonicalEvent } from '@tributary/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { expectAll } from './sent-events.ts';
import { nodeSender, SENT_WITHIN_MS, sendThroughRestart } from './through-restart.ts';

const ROUNDS = process.env.TRIBUTARY_TEST_LONG === undefined ? 40 : 1_000;

const SENDERS = [
  nodeSender('segment-analytics-node'),
  nodeSender('analytics-node'),
  nodeSender('rudder-sdk-node', 'rudder-sdk-node-plain'),
  nodeSender('rudder-sdk-node', 'rudder-sdk-node-gzip', ['gzip']),
];

describe('an SDK from npm, unmodified, while the server is killed and started again', () => {
  let sent: ReadonlyMap<string, readonly CanonicalEvent[]>;
  beforeAll(async () => {
    sent = await sendThroughRestart(SENDERS, ROUNDS);
  }, SENT_WITHIN_MS);

  it.each(SENDERS.map(({ name }) => name))('%s sends every event once, with all its fields', (name) => {
    const events = sent.get(name);
    expectAll(events, name, ROUNDS);
    for (const event of events ?? []) {
      expect(event.anonymous_id).toBe(`${name}-device`);
      expect(event).toMatchObject({
        integrations: { All: true, Elsewhere: false },
        ...(event.type === 'page' ? { category: 'Docs' } : {}),
      });
    }
  });
});
