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
import { type Evaluated, evaluationRecords } from './evaluation.ts';

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

function recordsOf(evaluation: Pick<Evaluated, 'entry'> & Partial<Evaluated>) {
  const { position } = evaluation.entry;
  const known = { event: EVENT, counted: COUNTED, contract: CONTRACT, verdict: undefined, over: undefined };
  return evaluationRecords({ ...known, position, ...evaluation });
}

function judgement(verdict: ContractVerdict, entry = entryOf(JSON.stringify(EVENT))) {
  return recordsOf({ entry, verdict });
}

describe('evaluationRecords', () => {
  it('passes an event without a contract on, byte by byte', () => {
    const odd = `{ "message_id" : "m1","type":"track",  "properties":{"n":1.0} }`;
    const [accepted, ...rest] = recordsOf({
      entry: entryOf(odd, { [HEADER.traceparent]: 'trace', [HEADER.keyId]: 'k1' }),
      contract: undefined,
      counted: { ...COUNTED, kind: { ...COUNTED.kind, source: 'web', key: 'k1' } },
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

  describe('an event with 100 violations was written to the log fifty times over', () => {
    const bytesOf = (records: readonly { key: string; value: string; headers: object }[]) =>
      records.reduce(
        (sum, { key, value, headers }) =>
          sum + Buffer.byteLength(key + value) + Buffer.byteLength(JSON.stringify(headers)),
        0,
      );
    const times = (count: number, path: (n: number) => string, action: 'warned' | 'blocked' = 'warned') =>
      Array.from({ length: count }, (_, n) => violation(path(n), action));

    it.each([
      [37, '17 more violations of this event are not recorded'],
      [100, 'at least 80 more violations of this event are not recorded'],
    ])('of %i violations 20 are recorded, and one more states: %s', (count, message) => {
      const [, ...recorded] = judgement({ outcome: 'warned', violations: times(count, (n) => `/f${n}`) });
      const found = recorded.map(({ value }) => JSON.parse(value));
      expect(found.slice(0, 20).map(({ path }) => path)).toEqual(
        times(20, (n) => `/f${n}`).map((v) => v.path),
      );
      expect(found.slice(20)).toMatchObject([{ kind: 'schema', path: '', message, action: 'warned' }]);
      expect(new Set(found.map(({ id }) => id)).size).toBe(21);
    });

    it('20 violations are recorded as they are', () => {
      expect(judgement({ outcome: 'warned', violations: times(20, (n) => `/f${n}`) })).toHaveLength(21);
    });

    it.each([
      ['nested', (n: number) => `/${'a/'.repeat(240)}${n}`],
      ['in lists', (n: number) => `/list/${n}/items/${n}`],
      ['beyond ASCII', (n: number) => `/${'\u{1f600}é'.repeat(200)}${n}`],
      ['control characters', (n: number) => `/${'\u0001'.repeat(600)}${n}`],
    ])('their bytes are bounded: %s', (_, path) => {
      for (const [outcome, action] of [
        ['warned', 'warned'],
        ['rejected', 'blocked'],
      ] as const) {
        const long = { ...EVENT, event: 'é'.repeat(9_000), user_id: 'u'.repeat(12_000) };
        const records = recordsOf({
          entry: entryOf(JSON.stringify(long)),
          event: long,
          counted: countedEvent(long),
          verdict: { outcome, violations: times(100, path, action) },
        });
        const [event, ...recorded] = records;
        expect(recorded.length).toBeGreaterThan(1);
        expect(bytesOf(recorded)).toBeLessThan(40 * 1024);
        // The event, its key, and the violations once more, in the header or in the rejected event.
        expect(bytesOf(event === undefined ? [] : [event])).toBeLessThan(30_000 + 12_000 + 30 * 1024);
        expect(JSON.parse(recorded.at(-1)?.value ?? '').message).toContain('more violations');
      }
    });
  });
});

describe('an event whose contract omits undeclared fields', () => {
  const accepted = (context: CanonicalEvent['context'], contract = CONTRACT) => {
    const event: CanonicalEvent = { ...EVENT, ...(context === undefined ? {} : { context }) };
    const verdict: ContractVerdict = { outcome: 'accepted', violations: [] };
    const entry = entryOf(JSON.stringify(event));
    const [first] = recordsOf({ entry, event, contract, verdict });
    return { value: first?.value ?? '', received: entry.value };
  };

  it('kept copies that no contract checks: properties and traits of context.segment, and of its batch', () => {
    const { value } = accepted({
      ip: '1.2.3.4',
      segment: { traits: { pin: 1 }, channel: 'web', batch: { properties: { pin: 2 }, sequence: 4 } },
    });
    expect(JSON.parse(value).context).toEqual({
      ip: '1.2.3.4',
      segment: { channel: 'web', batch: { sequence: 4 } },
    });
    expect(value).not.toContain('pin');
  });

  it('has its received bytes where there is no copy, or where the contract is not enforced', () => {
    for (const context of [undefined, {}, { segment: { channel: 'web' } }, { segment: ['traits'] }]) {
      const { value, received } = accepted(context);
      expect(value).toBe(received);
    }
    const copy = { segment: { traits: { pin: 1 } } };
    for (const contract of [
      { ...CONTRACT, enforcement_mode: 'allow' } as const,
      { ...CONTRACT, undeclared_fields: 'allow' } as const,
    ]) {
      const { value, received } = accepted(copy, contract);
      expect(value).toBe(received);
    }
  });
});
