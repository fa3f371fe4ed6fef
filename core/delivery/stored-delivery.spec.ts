import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExact } from '../primitives/json.ts';
import type { Delivery, DeliveryAttempt } from './delivery.ts';
import {
  attemptsIn,
  deliveryText,
  eventJson,
  failureGroupOf,
  kindOfFailure,
  readDelivery,
  storedAttempts,
  withBoundedTexts,
  withEventText,
  withFields,
} from './stored-delivery.ts';

const AT = '2026-01-02T03:04:05.678Z';
const WHOLE: Delivery = {
  id: 'd1',
  workspace_id: 'w1',
  environment: 'production',
  destination_id: 'place',
  rule_id: 'rule',
  message_id: 'd1',
  index: 0,
  created_at: AT,
  attempts: [],
  redrives: 0,
  event: {
    message_id: 'd1',
    type: 'identify',
    user_id: 'u',
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w1',
  },
};
const { event: EVENT, ...ENVELOPE } = WHOLE;
const TEXT = JSON.stringify(WHOLE);

/** Whether the event was left as text: then the trailing space is still there. */
const leavesText = (text: string) => eventJson(readDelivery(text) as Delivery).includes(' ');

describe('a delivery is read', () => {
  it('as it was written, whatever its event holds', () => {
    const tricky = fc.oneof(fc.json(), fc.constantFrom(',"event":{', '}}', '"', '\\', ',"event":{"a":1}}'));
    const properties = fc.dictionary(fc.oneof(fc.string(), fc.constant('event')), tricky);
    fc.assert(
      fc.property(properties, fc.string(), (held, id) => {
        const written = { ...WHOLE, id, message_id: id, event: { ...EVENT, properties: held, event: id } };
        const read = readDelivery(JSON.stringify(written)) as Delivery;
        expect(read).toEqual(written);
        expect(eventJson(read)).toBe(JSON.stringify(written.event));
      }),
    );
  });

  it('with its event as text where that stands last', () => {
    expect(leavesText(TEXT.replace(/\}\}$/, ' }}'))).toBe(true);
  });

  it.each([
    ['first', `{"event":${JSON.stringify(EVENT)} ,${JSON.stringify(ENVELOPE).slice(1)}`],
    ['first, with one of its own', `{"event":{"a":1,"event":{"b":2}},${JSON.stringify(ENVELOPE).slice(1)}`],
    ['in the midst', TEXT.replace(/\}$/, ',"redrives":0}')],
    ['before the end of the text', `${TEXT} `],
  ])('whole where its event stands %s', (_, text) => {
    expect(readDelivery(text)).toEqual(JSON.parse(text));
    expect(leavesText(text)).toBe(false);
  });

  it.each([
    ['', 'not JSON'],
    [TEXT.slice(0, -1), 'not JSON'],
    ['[]', 'not a JSON object'],
    [JSON.stringify({ ...WHOLE, id: 1 }), 'no delivery'],
    [JSON.stringify({ ...WHOLE, created_at: 'then' }), 'no time of creation'],
    [JSON.stringify({ ...WHOLE, attempts: {} }), 'no attempts'],
    [JSON.stringify(ENVELOPE), 'no event'],
    [JSON.stringify({ ...ENVELOPE, event: null }), 'no event'],
    [JSON.stringify({ ...ENVELOPE, event: 'text' }), 'no event'],
  ])('and refused when malformed: %s', (text, reason) => {
    expect(() => readDelivery(text)).toThrow(reason);
  });
});

const SPACED_TEXT = ` ${JSON.stringify(EVENT)}`;
const withText = (text = SPACED_TEXT) => withEventText({ ...ENVELOPE }, text);

describe('a delivery that keeps the text of its event', () => {
  it('has the event all the same, one object however often it is asked for', () => {
    const delivery = withText();
    expect(delivery.event).toEqual(EVENT);
    expect(delivery.event).toBe(delivery.event);
    expect(eventJson(delivery)).toBe(SPACED_TEXT);
  });

  it('is written, copied and compared like any other', () => {
    const plain = { ...ENVELOPE, event: EVENT };
    expect(JSON.stringify(withText())).toBe(JSON.stringify(plain));
    expect(withText()).toEqual(plain);
    expect({ ...withText(), redrives: 1 }).toEqual({ ...plain, redrives: 1 });
  });

  it('gives no copy its text, which may have another event', () => {
    const event = { ...EVENT, user_id: 'other' };
    expect(eventJson({ ...withText(), event })).toBe(JSON.stringify(event));
    expect(eventJson({ ...withText() })).toBe(JSON.stringify(EVENT));
  });

  it('keeps it where other members change, as with every attempt', () => {
    const text = '{"message_id":"m","n":12345678901234567890,"x":1.0}';
    const changed = withFields(withText(text), { redrives: 1 });
    expect(changed.redrives).toBe(1);
    expect(eventJson(changed)).toBe(text);
    expect(deliveryText(changed)).toBe(
      `${JSON.stringify({ ...ENVELOPE, redrives: 1 }).slice(0, -1)},"event":${text}}`,
    );
    expect(withFields({ ...ENVELOPE, event: EVENT }, { redrives: 1 })).toEqual({
      ...ENVELOPE,
      redrives: 1,
      event: EVENT,
    });
  });
});

const EXACT_EVENT = '{"message_id":"m1","type":"track","properties":{"n":1.0,"big":12345678901234567890}}';
const EXACT_TEXT =
  '{"id":"d1","workspace_id":"w","destination_id":"p","rule_id":"r","created_at":"2024-02-29T12:00:00.000Z",' +
  `"attempts":[],"redrives":0,"event":${EXACT_EVENT}}`;

describe('the text of a delivery', () => {
  it('is the text that was read, byte for byte', () => {
    expect(deliveryText(readDelivery(EXACT_TEXT))).toBe(EXACT_TEXT);
  });

  it('of a delivery that was made here has its event last', () => {
    const { event, ...rest } = readDelivery(EXACT_TEXT) as Delivery;
    const made: Delivery = { event, ...rest };
    const text = deliveryText(made);
    expect(parseExact(text)).toEqual({ ...rest, event });
    expect(text).toContain('"big":12345678901234567890');
    expect(text.endsWith(`"event":${JSON.stringify(event)}}`)).toBe(true);
  });

  it('leaves out absent fields', () => {
    expect(deliveryText({ ...readDelivery(EXACT_TEXT), replay: undefined } as never)).not.toContain('replay');
  });
});

const text = fc.option(fc.constantFrom('', 'answered 503', 'timed out', '"quoted"', 'é'), { nil: undefined });
const attempt = fc
  .record({
    ms: fc.integer({ min: 0, max: 2e12 }),
    outcome: fc.constantFrom('delivered' as const, 'retry' as const, 'dead' as const),
    duration_ms: fc.nat(100_000),
    status: fc.option(fc.integer({ min: 100, max: 599 }), { nil: undefined }),
    reason: text,
    response: text,
    at_once: fc.option(fc.constant(true as const), { nil: undefined }),
    throttled: fc.option(fc.constant(true as const), { nil: undefined }),
  })
  .map(
    ({ ms, ...rest }): DeliveryAttempt =>
      JSON.parse(
        JSON.stringify({
          at: new Date(ms).toISOString(),
          ...rest,
          throttled: rest.outcome === 'retry' ? rest.throttled : undefined,
        }),
      ),
  );

describe('the attempts of a delivery', () => {
  it('are read as they were stored', () => {
    fc.assert(
      fc.property(fc.array(attempt, { maxLength: 8 }), (attempts) => {
        const stored = JSON.parse(JSON.stringify(storedAttempts(attempts)));
        expect(attemptsIn(stored)).toEqual(attempts);
      }),
    );
  });

  it('take a few bytes for each that is like the one before', () => {
    const alike = Array.from(
      { length: 10 },
      (_, n): DeliveryAttempt => ({
        at: new Date(1_790_000_000_000 + n * 3_600_000).toISOString(),
        outcome: 'retry',
        reason: 'answered 503',
        status: 503,
        response: 'no',
        duration_ms: 12,
      }),
    );
    expect(JSON.stringify(storedAttempts(alike)).length).toBeLessThan(250);
    expect(withBoundedTexts(alike)).toEqual(alike);
  });

  it.each([
    ['of a kilobyte', (n: number) => `${n} ${'x'.repeat(1_000)}`],
    ['of control characters', (n: number) => `${n} ${'\u0000'.repeat(500)}`],
    ['in another script', (n: number) => `${n} ${'配'.repeat(500)}`],
  ])('had responses %s, each another: those of the latest are kept, and not more than fit', (_, response) => {
    const attempts = Array.from(
      { length: 5 },
      (_, n): DeliveryAttempt => ({
        at: new Date(n).toISOString(),
        outcome: 'retry',
        reason: `answered 50${n}`,
        duration_ms: 1,
        response: response(n),
      }),
    );
    const bounded = withBoundedTexts(attempts);
    expect(Buffer.byteLength(JSON.stringify(storedAttempts(bounded)))).toBeLessThan(600);
    expect(bounded.at(-1)?.reason).toBe('answered 504');
    expect(bounded.at(-1)?.response?.slice(0, 20)).toBe(response(4).slice(0, 20));
    expect(withBoundedTexts(bounded)).toEqual(bounded);
  });
});

describe('the kind of a failure', () => {
  it.each([
    ['answered 503', 503, 'answered 503'],
    ['expired; last failure: answered 503', 503, 'expired; last failure: answered 503'],
    ['answered 503', undefined, 'answered …'],
    ['order 4711 of "Ada Lovelace" is unknown', undefined, 'order … of … is unknown'],
    [
      "TypeError: Cannot read properties of undefined (reading 'plan')",
      undefined,
      'TypeError: Cannot read properties of undefined (reading …)',
    ],
    ['user 0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70 has no account', undefined, 'user … has no account'],
    ['no contact ada@example.com in list 7', undefined, 'no contact … in list …'],
    ['network error (UND_ERR_CONNECT_TIMEOUT)', undefined, 'network error (UND_ERR_CONNECT_TIMEOUT)'],
    ['trace 5f3a9c1b2d refused', undefined, 'trace … refused'],
    ['the defaced facade', undefined, 'the defaced facade'],
    ['', undefined, ''],
  ])('%j with status %s is %j', (reason, status, kind) => {
    expect(kindOfFailure(reason, status)).toBe(kind);
  });

  it('is bounded, and stays the same', () => {
    const kind = kindOfFailure(`x${' 12 y'.repeat(10_000)}`);
    expect(kind.length).toBe(160);
    expect(kindOfFailure(kind)).toBe(kind);
  });
});

describe('the group of an outcome', () => {
  const outcome = (changes: object) => ({
    delivery: {
      destination_id: 'd',
      rule_id: 'r',
      attempts: [
        { outcome: 'retry', status: 500, at: '', duration_ms: 1 },
        { outcome: 'retry', status: 503, at: '', duration_ms: 1 },
      ],
    },
    status: 'dead',
    cause: 'expired',
    reason: 'expired; last failure: answered 503',
    at: '',
    ...changes,
  });

  it('names the last answer, the cause, the destination and the rule', () => {
    expect(failureGroupOf(outcome({}))).toEqual({
      status: 'dead',
      destination_id: 'd',
      rule_id: 'r',
      cause: 'expired',
      response_status: '503',
      failure: 'expired; last failure: answered 503',
    });
    expect(failureGroupOf(outcome({ status: 'retrying', cause: undefined }))).toMatchObject({
      status: 'retrying',
      cause: '',
    });
  });

  it.each(['delivered', 'discarded'])('a delivery that is %s has no group', (status) => {
    expect(failureGroupOf(outcome({ status }))).toBeUndefined();
  });
});
