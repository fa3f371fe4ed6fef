import { HEADER, type Violation } from '@tributary/core';
import { expect, it } from 'vitest';
import { violationsHeader, violationsIn } from './event-record.ts';

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

it('says again what the violations were', () => {
  const violations = [
    violation(),
    violation({ id: 'v2', path: '/"é/☃', action: 'omitted', kind: 'undeclared' }),
  ];
  expect(violationsIn({ ...CONTRACT, ...violationsHeader(violations) }, EVENT)).toEqual(violations);
});

it('is absent where there are none', () => {
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
