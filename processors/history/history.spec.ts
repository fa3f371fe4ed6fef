import {
  type Delivery,
  type DeliveryOutcome,
  historyEntryOfOutcome,
  type LogEntry,
  outcomeVersion,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { historyEntryOf, latest } from './history.ts';

const DELIVERY: Delivery = {
  id: 'd1',
  workspace_id: 'w1',
  environment: 'production',
  destination_id: 'place',
  rule_id: 'rule',
  message_id: 'm1',
  index: 0,
  created_at: '2026-01-01T00:00:05.000Z',
  attempts: [],
  redrives: 0,
  event: {
    message_id: 'm1',
    type: 'identify',
    user_id: 'u1',
    timestamp: '2026-01-01T00:00:00.000Z',
    received_at: '2026-01-01T00:00:01.000Z',
    environment: 'production',
    workspace_id: 'w1',
  },
};

const ATTEMPT = {
  at: '2026-01-01T00:00:06.000Z',
  outcome: 'retry',
  reason: 'HTTP 500',
  duration_ms: 3,
} as const;

function entry(value: object): LogEntry {
  const position = { topic: 'any', partition: 0, offset: 0, index: 0 };
  return { key: 'k', value: JSON.stringify(value), headers: {}, position, timestamp: 0 };
}

function outcome(fields: Partial<DeliveryOutcome>, delivery: Partial<Delivery> = {}): DeliveryOutcome {
  return {
    delivery: { ...DELIVERY, ...delivery },
    status: 'dead',
    at: '2026-01-01T00:00:07.000Z',
    ...fields,
  };
}

describe('historyEntryOf', () => {
  it('a violation cost 46 rows of index: it is listed by the filters of the API alone', () => {
    const violation = {
      id: 'v1',
      workspace_id: 'w1',
      environment: 'production',
      contract_id: 'c1',
      contract_version: 2,
      message_id: 'm1',
      event_type: 'track',
      event_name: 'A',
      kind: 'type',
      path: '/total',
      message: 'must be number',
      action: 'blocked',
      received_at: '2026-01-01T00:00:01.000Z',
    };
    expect(historyEntryOf(TOPIC.violations, entry(violation))).toEqual({
      kind: 'violation',
      id: 'v1',
      workspaceId: 'w1',
      at: Date.parse('2026-01-01T00:00:01Z'),
      version: 1,
      facets: {
        contract_id: 'c1',
        kind: 'type',
        path: '/total',
        action: 'blocked',
        contract_version: '2',
        environment: 'production',
      },
      body: violation,
    });
  });

  it('lists an outcome by status and destination', () => {
    const dead = outcome({ status: 'dead', cause: 'expired', reason: 'expired' }, { attempts: [ATTEMPT] });
    const { event, ...delivery } = dead.delivery as Delivery;
    expect(historyEntryOfOutcome(dead)).toEqual({
      kind: 'delivery',
      id: 'd1',
      workspaceId: 'w1',
      at: Date.parse(DELIVERY.event.received_at),
      version: outcomeVersion(dead),
      facets: { status: 'dead', destination_id: 'place', rule_id: 'rule', cause: 'expired' },
      group: {
        status: 'dead',
        destination_id: 'place',
        rule_id: 'rule',
        cause: 'expired',
        response_status: '',
        failure: 'expired',
      },
      body: { ...dead, delivery },
      detail: { event },
    });
  });

  it('a redrive, which sets created_at again, does not move the delivery in lists', () => {
    const first = historyEntryOfOutcome(outcome({}));
    const redriven = outcome(
      { status: 'delivered' },
      { redrives: 1, created_at: '2026-01-02T00:00:00.000Z' },
    );
    const second = historyEntryOfOutcome(redriven);
    expect(second.at).toBe(first.at);
    expect(second.version).toBeGreaterThan(first.version);
  });
});

describe('latest', () => {
  it('keeps the highest version of an id, the later of equal ones', () => {
    const dead = historyEntryOfOutcome(outcome({}, { attempts: [ATTEMPT] }));
    const retrying = historyEntryOfOutcome(outcome({ status: 'retrying', reason: 'a' }));
    const again = historyEntryOfOutcome(outcome({ status: 'retrying', reason: 'b' }));
    expect(latest([dead, retrying])).toEqual([dead]);
    expect(latest([retrying, again])).toEqual([again]);
  });
});
