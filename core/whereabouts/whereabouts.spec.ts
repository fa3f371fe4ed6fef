import { describe, expect, it } from 'vitest';
import { type DeliveryWay, type RuleWay, stageOf, statusOf, type Whereabouts } from './whereabouts.ts';

const AT = '2026-01-01T00:00:00.000Z';
const place = { position: { topic: 't', partition: 0, offset: 0, index: 0 }, at: 0 };

const delivery = (status: DeliveryWay['status'], stage?: DeliveryWay['stage']): DeliveryWay => ({
  id: 'd',
  index: 0,
  destination_id: 'p',
  status,
  ...(stage === undefined ? {} : { stage }),
  first_try: false,
  attempts: [],
  created_at: AT,
});

const rule = (fields: Partial<RuleWay> = {}): RuleWay => ({
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

const way = (fields: Partial<Whereabouts>): Whereabouts => ({
  event: {
    message_id: 'm',
    type: 'track',
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w',
  },
  received: place,
  contract: { outcome: 'accepted', violations: [] },
  accepted: place,
  rules: [],
  looked: { complete: true, entries: 0, duration_ms: 0, unanswered: [] },
  ...fields,
});

const having = (...statuses: DeliveryWay['status'][]) =>
  way({ rules: [rule({ deliveries: statuses.map((status) => delivery(status)) })] });

describe('statusOf', () => {
  it.each([
    ['rejected', way({ contract: { outcome: 'rejected', violations: [] } })],
    ['under_way', way({ stage: 'validate' })],
    ['under_way', way({ rules: [rule({ stage: 'route.slow', transformation: 'unknown' })] })],
    ['under_way', having('dead', 'pending')],
    ['under_way', having('delivered', 'retrying')],
    ['delivered', having('delivered', 'delivered')],
    ['dead', having('delivered', 'dead', 'discarded')],
    ['discarded', having('delivered', 'discarded')],
    ['not_forwarded', way({})],
    ['not_forwarded', way({ rules: [rule({ mismatch: { because: 'filter' }, transformation: 'unknown' })] })],
    ['not_forwarded', way({ rules: [rule({ transformation: 'dropped' })] })],
    ['failed', way({ poisoned: { stage: 'route', error: 'x' } })],
  ] as const)('%s', (status, found) => {
    expect(statusOf(found)).toBe(status);
  });

  it('is unknown rather than guessed where the look was not complete', () => {
    const { accepted, ...unplaced } = way({});
    expect(accepted).toBeDefined();
    expect(statusOf(unplaced)).toBe('unknown');
    expect(statusOf(way({ rules: [rule({ transformation: 'unknown' })] }))).toBe('unknown');
    const looked = { complete: false, entries: 0, duration_ms: 0, unanswered: ['history'] };
    expect(statusOf(way({ looked }))).toBe('unknown');
    expect(statusOf(having('delivered', 'unknown', 'dead'))).toBe('unknown');
    expect(statusOf(having('retrying', 'unknown'))).toBe('under_way');
  });
});

it('the stage an event waits for is the first of those it and its deliveries wait for', () => {
  expect(stageOf(way({ stage: 'route' }))).toBe('route');
  const slow = rule({ deliveries: [delivery('delivered'), delivery('pending', 'deliver.slow')] });
  expect(stageOf(way({ rules: [rule(), slow] }))).toBe('deliver.slow');
  expect(stageOf(way({ rules: [rule()] }))).toBeUndefined();
});
