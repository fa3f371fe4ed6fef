import { describe, expect, it } from 'vitest';
import { type DeliveryTrace, type EventTrace, type RuleTrace, stageOf, statusOf } from './event-trace.ts';

const AT = '2026-01-01T00:00:00.000Z';
const location = { position: { topic: 't', partition: 0, offset: 0, index: 0 }, at: 0 };

const delivery = (status: DeliveryTrace['status'], stage?: DeliveryTrace['stage']): DeliveryTrace => ({
  id: 'd',
  index: 0,
  destination_id: 'p',
  status,
  ...(stage === undefined ? {} : { stage }),
  first_try: false,
  attempts: [],
  created_at: AT,
});

const rule = (fields: Partial<RuleTrace> = {}): RuleTrace => ({
  rule_id: 'r',
  name: 'r',
  version: 1,
  destination_id: 'p',
  transformation_id: null,
  changed_since: false,
  transformation: 'none',
  deliveries: [],
  ...fields,
});

const trace = (fields: Partial<EventTrace>): EventTrace => ({
  event: {
    message_id: 'm',
    type: 'track',
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w',
  },
  received: location,
  contract: { outcome: 'accepted', violations: [] },
  accepted: location,
  rules: [],
  loads: [],
  scan: { complete: true, entries: 0, duration_ms: 0, unanswered: [] },
  ...fields,
});

const having = (...statuses: DeliveryTrace['status'][]) =>
  trace({ rules: [rule({ deliveries: statuses.map((status) => delivery(status)) })] });

describe('statusOf', () => {
  it.each([
    ['rejected', trace({ contract: { outcome: 'rejected', violations: [] } })],
    ['under_way', trace({ stage: 'validate' })],
    ['under_way', trace({ rules: [rule({ stage: 'route.slow', transformation: 'unknown' })] })],
    ['under_way', having('dead', 'pending')],
    ['under_way', having('delivered', 'retrying')],
    ['delivered', having('delivered', 'delivered')],
    ['dead', having('delivered', 'dead', 'discarded')],
    ['discarded', having('delivered', 'discarded')],
    ['not_forwarded', trace({})],
    [
      'not_forwarded',
      trace({ rules: [rule({ mismatch: { because: 'filter' }, transformation: 'unknown' })] }),
    ],
    ['not_forwarded', trace({ rules: [rule({ transformation: 'dropped' })] })],
    ['loaded', trace({ loads: [{ destination_id: 'p', status: 'loaded' }] })],
    ['under_way', trace({ loads: [{ destination_id: 'p', status: 'waiting' }] })],
    ['not_forwarded', trace({ loads: [{ destination_id: 'p', status: 'before' }] })],
    // A load may come hours later, and what was delivered is.
    ['delivered', { ...having('delivered'), loads: [{ destination_id: 'p', status: 'waiting' }] }],
    ['failed', trace({ poisoned: { stage: 'route', error: 'x' } })],
  ] as const)('%s', (status, found) => {
    expect(statusOf(found)).toBe(status);
  });

  it('is unknown rather than guessed where the look was not complete', () => {
    const { accepted, ...unplaced } = trace({});
    expect(accepted).toBeDefined();
    expect(statusOf(unplaced)).toBe('unknown');
    expect(statusOf(trace({ rules: [rule({ transformation: 'unknown' })] }))).toBe('unknown');
    const scan = { complete: false, entries: 0, duration_ms: 0, unanswered: ['history'] };
    expect(statusOf(trace({ scan }))).toBe('unknown');
    expect(statusOf(having('delivered', 'unknown', 'dead'))).toBe('unknown');
    expect(statusOf(having('retrying', 'unknown'))).toBe('under_way');
  });
});

it('the stage an event waits for is the first of those it and its deliveries wait for', () => {
  expect(stageOf(trace({ stage: 'route' }))).toBe('route');
  const slow = rule({ deliveries: [delivery('delivered'), delivery('pending', 'deliver.slow')] });
  expect(stageOf(trace({ rules: [rule(), slow] }))).toBe('deliver.slow');
  expect(stageOf(trace({ rules: [rule()] }))).toBeUndefined();
});
