import { describe, expect, it } from 'vitest';
import type { EventTrace, TracedDelivery, TracedRule } from './event-calls.ts';
import { stepsOf } from './event-path.ts';
import { eventMeaning, noDeliveryText } from './event-words.ts';

const AT = '2026-03-10T12:00:00.000Z';
const POSITION = { topic: 't', partition: 0, offset: 1, index: 0 };

function trace(fields: Partial<EventTrace>): EventTrace {
  return {
    message_id: 'm',
    environment: 'production',
    status: 'under_way',
    stage: null,
    received: { at: AT, position: POSITION, key_id: null },
    contract: null,
    accepted: null,
    failed: null,
    rules: [],
    loads: [],
    event: { type: 'track', event: 'Order Completed' },
    looked: { complete: true, entries: 1, duration_ms: 1, unanswered: [] },
    ...fields,
  };
}

function rule(fields: Partial<TracedRule>): TracedRule {
  return {
    rule_id: 'r',
    name: 'Rule',
    version: 1,
    destination_id: 'd',
    matched: true,
    because: null,
    message: null,
    changed_since: false,
    stage: null,
    transformation_id: null,
    transformation: 'none',
    deliveries: [],
    ...fields,
  };
}

const CONTRACT: NonNullable<EventTrace['contract']> = {
  outcome: 'accepted',
  contract_id: 'c',
  contract_version: 3,
  violations: [],
  reevaluated: null,
};
const ACCEPTED = { at: '2026-03-10T12:00:00.250Z', position: POSITION };
const NAMES = { destination: new Map([['d', 'Shop']]), contract: new Map([['c', 'Orders']]) };

const titles = (given: EventTrace) =>
  stepsOf(given, NAMES).map(({ title, detail = '', isWaiting }) =>
    [isWaiting ? '…' : '', title, detail].filter((part) => part !== '').join(' | '),
  );

describe('the path of an event', () => {
  it('ends in each warehouse that takes it, with what no column holds', () => {
    const load = {
      destination_id: 'd',
      status: 'loaded' as const,
      load_id: 'b',
      loaded_at: '2026-03-10T12:05:00.000Z',
      discards: [{ table: 'orders', column: 'total', reason: 'the column is of type bigint' }],
    };
    const nothing = { load_id: null, loaded_at: null, discards: null };
    const loads = [
      load,
      { ...load, discards: [{ table: '', column: '', reason: 'threw: no total' }] },
      { ...load, ...nothing, destination_id: 'gone' },
      { ...load, ...nothing, status: 'waiting' as const },
      { ...load, ...nothing, status: 'before' as const },
    ];
    expect(titles(trace({ status: 'loaded', accepted: ACCEPTED, loads })).slice(2)).toEqual([
      'Loaded: Shop | In discards: orders.total (the column is of type bigint)',
      'Loaded: Shop | In discards: the whole event (threw: no total)',
      'Loaded: a warehouse',
      '… | Waits for its load: Shop',
      'Not loaded: Shop | It was accepted before the warehouse was made. A replay loads it.',
    ]);
    expect(eventMeaning({ status: 'loaded', rules: [] })).toMatch(/loaded into a warehouse/);
  });

  it('ends at the step that the event waits for', () => {
    expect(titles(trace({ stage: 'validate' }))).toEqual([
      'Received | Durable in the log',
      '… | Waits for its contract to be evaluated',
    ]);
  });

  it('ends where its contract blocked it', () => {
    const violation = {
      kind: 'type',
      path: '/total',
      message: 'must be a number',
      action: 'blocked',
    } as const;
    const contract = { ...CONTRACT, outcome: 'rejected' as const, violations: [violation] };
    expect(titles(trace({ status: 'rejected', contract }))).toEqual([
      'Received | Durable in the log',
      'Rejected by its contract | Orders, version 3, 1 violation',
    ]);
  });

  it('states the duration of each step, and the result of deliveries', () => {
    const attempt = {
      outcome: 'retry',
      throttled: false,
      reason: null,
      status: 500,
      response: null,
      duration_ms: 5,
    } as const;
    const delivery: TracedDelivery = {
      id: 'x',
      index: 0,
      destination_id: 'd',
      status: 'dead',
      stage: null,
      first_try: false,
      attempts: [
        { ...attempt, at: AT },
        { ...attempt, at: '2026-03-10T12:00:02.000Z' },
      ],
      reason: 'answered 500',
      cause: 'destination',
      created_at: AT,
      next_attempt_at: null,
    };
    const steps = stepsOf(
      trace({
        status: 'dead',
        contract: CONTRACT,
        accepted: ACCEPTED,
        rules: [rule({ deliveries: [delivery] })],
      }),
      NAMES,
    );
    expect(steps.map(({ title, afterMs }) => [title, afterMs])).toEqual([
      ['Received', undefined],
      ['Keeps its contract', undefined],
      ['Accepted', 250],
      ['1 of 1 rule matches', undefined],
      ['Dead: Shop', 2_000],
    ]);
    expect(steps.at(-1)).toMatchObject({ detail: 'after 2 attempts: answered 500', tone: 'bad' });
  });

  it('states that a transformation dropped the event, and that no rule exists', () => {
    const dropped = rule({ transformation: 'dropped', transformation_id: 't' });
    expect(titles(trace({ accepted: ACCEPTED, rules: [dropped] })).at(-1)).toBe(
      'Dropped by the transformation of Rule',
    );
    expect(titles(trace({ status: 'not_forwarded', accepted: ACCEPTED })).at(-1)).toBe(
      'No rules | No rule forwards events yet',
    );
  });
});

describe('the sentences about an event', () => {
  const unwanted = { status: 'unwanted' } as TracedDelivery;

  it.each([
    [[], 'It was accepted, and there is no rule.'],
    [[rule({ matched: false, because: 'filter' })], 'It was accepted, and no rule forwards it.'],
    [[rule({ transformation: 'dropped' })], 'It was accepted, and a transformation returned nothing for it.'],
    [
      [rule({ deliveries: [unwanted] }), rule({ transformation: 'dropped' })],
      'It was accepted, and no action of its destination takes it, and a transformation returned nothing for it.',
    ],
  ])('no rule was said to forward an event that its transformation dropped', (rules, text) => {
    expect(eventMeaning(trace({ status: 'not_forwarded', rules }))).toBe(text);
  });

  it('no rule was said to have made a delivery where not everything could be read', () => {
    const looked = { ...trace({}).looked, complete: false };
    expect(noDeliveryText(trace({ status: 'unknown', looked }))).toMatch(/^None was found/);
    expect(noDeliveryText(trace({ status: 'not_forwarded' }))).toBe('None: no delivery was made of it.');
    expect(noDeliveryText(trace({}))).toBe('None yet.');
  });
});
