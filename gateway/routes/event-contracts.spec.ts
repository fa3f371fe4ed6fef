import type { CanonicalEvent, Contract } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { trialOf, withKindOf } from './event-contracts.ts';

const contract = (fields: Partial<Contract> = {}) =>
  ({ id: 'c', version: 3, event_type: 'track', event_name: 'Paid', ...fields }) as Contract;

const event: CanonicalEvent = {
  message_id: 'm',
  type: 'track',
  event: 'Paid',
  user_id: 'u',
  properties: { amount: 'x', more: 1 },
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:00.000Z',
  environment: 'development',
  workspace_id: 'w',
};
const violation = { kind: 'type', path: '/amount', message: 'must be a number' } as const;

describe('withKindOf', () => {
  it('fills in type and name, for absent ones and for null', () => {
    expect(withKindOf(contract(), { user_id: 'u' })).toEqual({ user_id: 'u', type: 'track', event: 'Paid' });
    expect(withKindOf(contract({ event_type: 'page' }), { type: null, name: null })).toEqual({
      type: 'page',
      name: 'Paid',
    });
    expect(withKindOf(contract({ event_type: 'identify', event_name: '' }), {})).toEqual({
      type: 'identify',
    });
  });

  it('leaves the fields of the body', () => {
    expect(withKindOf(contract(), { event: 'Other' })).toEqual({ type: 'track', event: 'Other' });
    expect(withKindOf(contract(), { type: 'page' })).toEqual({ type: 'page' });
  });
});

describe('trialOf', () => {
  it('shows the event as it would continue, without omitted fields', () => {
    const verdict = { outcome: 'omitted', violations: [], subject: { amount: 'x' } } as const;
    expect(trialOf(contract(), event, verdict).event).toEqual({ ...event, properties: { amount: 'x' } });
  });

  it('shows no event where it would be rejected, and why', () => {
    const verdict = { outcome: 'rejected', violations: [{ ...violation, action: 'blocked' }] } as const;
    const trial = trialOf(contract(), event, verdict);
    expect(trial.event).toBeNull();
    expect(trial.violations).toMatchObject([
      {
        ...violation,
        id: expect.any(String),
        action: 'blocked',
        contract_id: 'c',
        contract_version: 3,
        message_id: 'm',
        environment: 'development',
        event_type: 'track',
        event_name: 'Paid',
        received_at: event.received_at,
      },
    ]);
  });
});
