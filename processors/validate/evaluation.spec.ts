import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  countedEvent,
  HEADER,
  type LogEntry,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { evaluationRecords } from './evaluation.ts';

const EVENT: CanonicalEvent = {
  message_id: 'm1',
  type: 'track',
  event: 'Order Placed',
  user_id: 'u1',
  properties: { total: 3, secret: 'x' },
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:01.000Z',
  environment: 'production',
  workspace_id: 'w1',
};

const COUNTED = countedEvent(EVENT);

const CONTRACT: Contract = {
  id: 'c1',
  version: 3,
  workspace_id: 'w1',
  name: 'orders',
  event_type: 'track',
  event_name: 'Order Placed',
  description: null,
  schema_definition: {},
  enforcement_mode: 'block',
  undeclared_fields: 'omit',
  status: 'active',
  created_by: 'a1',
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
};

function entryOf(value: string, headers: Record<string, string> = {}): LogEntry {
  return {
    key: 'any',
    value,
    headers: { [HEADER.catalogPosition]: '7', ...headers },
    position: { topic: 'events.production', partition: 0, offset: 5, index: 1 },
    timestamp: 1,
  };
}

function violation(path: string, action: 'warned' | 'omitted' | 'blocked') {
  return { kind: 'type' as const, path, message: 'must be string', action };
}

function judgement(verdict: ContractVerdict, entry = entryOf(JSON.stringify(EVENT))) {
  return evaluationRecords({ entry, event: EVENT, counted: COUNTED, contract: CONTRACT, verdict });
}

describe('evaluationRecords', () => {
  it('passes an event without a contract on, byte by byte', () => {
    const odd = `{ "message_id" : "m1","type":"track",  "properties":{"n":1.0} }`;
    const [accepted, ...rest] = evaluationRecords({
      entry: entryOf(odd, { [HEADER.traceparent]: 'trace', [HEADER.keyId]: 'k1' }),
      event: EVENT,
      counted: { ...COUNTED, source: 'web', key: 'k1' },
    });
    expect(rest).toEqual([]);
    expect(accepted).toEqual({
      topic: TOPIC.accepted,
      key: 'w1:u1',
      value: odd,
      headers: {
        [HEADER.catalogPosition]: '7',
        [HEADER.messageId]: 'm1',
        [HEADER.workspaceId]: 'w1',
        [HEADER.type]: 'track',
        [HEADER.environment]: 'production',
        [HEADER.traceparent]: 'trace',
        [HEADER.countedAs]: `web|k1|track|${Date.parse(EVENT.received_at)}|${EVENT.event}`,
        [HEADER.keyId]: 'k1',
        [HEADER.outcome]: 'accepted',
      },
    });
  });

  it('keeps the order of fields when some are omitted', () => {
    const [accepted] = judgement({
      outcome: 'omitted',
      violations: [violation('/secret', 'omitted')],
      subject: { total: 3 },
    });
    expect(accepted?.value).toBe(JSON.stringify({ ...EVENT, properties: { total: 3 } }));
    expect(Object.keys(JSON.parse(accepted?.value ?? ''))).toEqual(Object.keys(EVENT));
    expect(accepted?.headers).toMatchObject({
      outcome: 'omitted',
      'contract-id': 'c1',
      'contract-version': '3',
    });
  });

  it('puts the received bytes and every violation into a rejected event', () => {
    const outputRecords = judgement({
      outcome: 'rejected',
      violations: [violation('/total', 'blocked'), violation('/secret', 'warned')],
    });
    expect(outputRecords.map(({ topic }) => topic)).toEqual([
      TOPIC.rejected,
      TOPIC.violations,
      TOPIC.violations,
    ]);
    const rejected = JSON.parse(outputRecords[0]?.value ?? '');
    expect(rejected).toMatchObject({ event: EVENT, reason: 'event blocked' });
    expect(outputRecords[0]?.value).toContain(JSON.stringify(EVENT));
    expect(rejected.violations).toEqual(outputRecords.slice(1).map(({ value }) => JSON.parse(value)));
    expect(rejected.violations[0]).toMatchObject({ contract_version: 3, path: '/total', action: 'blocked' });
  });

  it('is the same on every replay', () => {
    const verdict: ContractVerdict = { outcome: 'warned', violations: [violation('/total', 'warned')] };
    expect(judgement(verdict)).toEqual(judgement(verdict));
  });

  it('shortens a path as long as an event, and keeps two of them distinct', () => {
    const long = `/${'k'.repeat(20_000)}`;
    const outputRecords = judgement({
      outcome: 'warned',
      violations: [violation(`${long}/a`, 'warned'), violation(`${long}/b`, 'warned')],
    });
    const [first, second] = outputRecords.slice(1).map(({ value }) => JSON.parse(value));
    expect(first.path.length).toBeLessThan(600);
    expect(first.id).not.toBe(second.id);
  });
});
