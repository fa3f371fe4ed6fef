import {
  type CanonicalEvent,
  countedEvent,
  eventKey,
  eventName,
  HEADER,
  InvalidInput,
  type LogEntry,
  type Violation,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import {
  countedHeader,
  eventHeaders,
  RecordedEvent,
  violationsHeader,
  violationsIn,
} from './event-record.ts';

const EVENT = {
  message_id: 'm1',
  type: 'identify',
  user_id: 'u1',
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:01.000Z',
  environment: 'development',
  workspace_id: 'w1',
} as const;

function violation(changes: Partial<Violation> = {}): Violation {
  return {
    id: 'v1',
    contract_id: 'c1',
    contract_version: 3,
    workspace_id: 'w1',
    environment: 'development',
    message_id: 'm1',
    event_type: 'identify',
    event_name: '',
    kind: 'type',
    path: '/a',
    message: 'must be string',
    action: 'warned',
    received_at: EVENT.received_at,
    ...changes,
  };
}

const CONTRACT = { [HEADER.contractId]: 'c1', [HEADER.contractVersion]: '3' };

it('has the violations that were recorded', () => {
  const violations = [
    violation(),
    violation({ id: 'v2', path: '/"é/☃', action: 'omitted', kind: 'undeclared' }),
  ];
  expect(violationsIn({ ...CONTRACT, ...violationsHeader(violations) }, EVENT)).toEqual(violations);
});

it('is absent where none exist', () => {
  expect(violationsHeader([])).toEqual({});
  expect(violationsIn(CONTRACT, EVENT)).toEqual([]);
});

it('has at most the size of an event, and keeps the first ones', () => {
  const many = Array.from({ length: 100 }, (_, n) =>
    violation({ id: `v${n}`, path: 'p'.repeat(500), message: 'm'.repeat(500) }),
  );
  const header = violationsHeader(many);
  expect(header[HEADER.violations]?.length).toBeLessThanOrEqual(32 * 1024 + 2);
  const kept = violationsIn({ ...CONTRACT, ...header }, EVENT);
  expect(kept.length).toBeGreaterThan(20);
  expect(kept).toEqual(many.slice(0, kept.length));
});

describe('RecordedEvent', () => {
  const track = (fields: object = {}): CanonicalEvent => ({
    ...EVENT,
    type: 'track',
    event: 'Cart | Opened',
    source_id: 'shop',
    ...fields,
  });
  const recorded = (event: CanonicalEvent, value = JSON.stringify(event)): LogEntry => ({
    key: eventKey(event),
    value,
    headers: { ...eventHeaders(event, {}, 3), ...countedHeader(event, countedEvent(event, 'k9')) },
    position: { topic: 'events.accepted', partition: 1, offset: 2, index: 0 },
    timestamp: 5,
  });
  const known = (one: RecordedEvent) => {
    const { message_id, workspace_id, environment, type, name, subject, counted } = one;
    return { message_id, workspace_id, environment, type, name, subject, counted };
  };
  const expected = (event: CanonicalEvent, key: string) => ({
    message_id: 'm1',
    workspace_id: 'w1',
    environment: 'development',
    type: event.type,
    name: eventName(event),
    subject: event.user_id ?? event.anonymous_id,
    counted: countedEvent(event, key),
  });

  it('has the fields that stages need without parsing the event', () => {
    const event = track();
    const one = new RecordedEvent(recorded(event, 'not JSON'));
    expect(known(one)).toEqual(expected(event, 'k9'));
    expect(one.text).toBe('not JSON');
    expect(() => one.event).toThrow(InvalidInput);
  });

  it('parses the event once, when it is asked for', () => {
    const event = track({ type: 'page', event: undefined, name: 'Home' });
    const one = new RecordedEvent(recorded(event));
    expect(known(one)).toEqual(expected(event, 'k9'));
    expect(one.event).toEqual(JSON.parse(JSON.stringify(event)));
    expect(one.event).toBe(one.event);
  });

  it('parses a record of an earlier release', () => {
    const event = track({ user_id: undefined, anonymous_id: 'a7' });
    const { [HEADER.countedAs]: _, ...headers } = recorded(event).headers;
    const one = new RecordedEvent({
      ...recorded(event),
      key: 'another form',
      headers: { ...headers, [HEADER.keyId]: 'k8' },
    });
    expect(known(one)).toEqual(expected(event, 'k8'));
  });

  it('has the whole of a name that the funnel shortens', () => {
    const event = track({ event: 'n'.repeat(201) });
    expect(countedHeader(event, countedEvent(event))).toEqual({});
    const one = new RecordedEvent(recorded(event));
    expect(one.name).toBe(event.event);
    expect(one.counted.kind.name).toHaveLength(200);
  });
});
