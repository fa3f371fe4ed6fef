import {
  type DeadCause,
  type Delivery,
  type DeliveryOutcome,
  HEADER,
  MATCH,
  outcomeVersion,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { canRedrive, redriveOf } from './redrive.ts';

const delivery: Delivery = {
  id: 'd',
  workspace_id: 'w',
  environment: 'production',
  destination_id: 'dest',
  rule_id: 'rule',
  message_id: 'm',
  index: 0,
  created_at: '2026-01-01T00:00:00.000Z',
  attempts: [{ at: '2026-01-01T00:00:01.000Z', outcome: 'dead', reason: '410', duration_ms: 3 }],
  redrives: 1,
  event: {
    message_id: 'm',
    type: 'track',
    event: 'X',
    user_id: 'u',
    timestamp: '2026-01-01T00:00:00.000Z',
    received_at: '2026-01-01T00:00:00.000Z',
    environment: 'production',
    workspace_id: 'w',
  },
};
const dead = (cause: DeadCause): DeliveryOutcome => ({
  delivery,
  status: 'dead',
  reason: 'why',
  cause,
  at: '2026-01-01T00:00:02.000Z',
});
const now = Date.parse('2026-01-02T00:00:00.000Z');

const CATALOG = { position: 7, state: { entity: () => ({ version: 3, enabled: true }) } as never };

describe('redriveOf', () => {
  it('delivers again what its destination refused, with its time and attempts counted anew', () => {
    const { start } = redriveOf(dead('destination'), now, CATALOG);
    expect(start.topic).toBe(TOPIC.deliveries);
    expect(start.entry.key).toBe('dest:u');
    expect(JSON.parse(start.entry.value)).toEqual({
      ...delivery,
      redrives: 2,
      created_at: '2026-01-02T00:00:00.000Z',
    });
    expect(start.entry.headers).toEqual({
      [HEADER.catalogPosition]: '7',
      [HEADER.messageId]: 'm',
      [HEADER.workspaceId]: 'w',
      [HEADER.type]: 'track',
      [HEADER.environment]: 'production',
      [HEADER.outcome]: 'retrying',
      [HEADER.ruleVersion]: '3',
      [HEADER.redriveOf]: 'd:1:2026-01-01T00:00:02.000Z',
    });
    const gone = { ...CATALOG, state: { entity: () => undefined } as never };
    expect(redriveOf(dead('destination'), now, gone).start.entry.headers).toMatchObject({
      [HEADER.ruleVersion]: '0',
    });
  });

  it('matches the rule again for an event that the rule stopped', () => {
    expect(redriveOf(dead('rule'), now, CATALOG).start.entry.headers).not.toHaveProperty(HEADER.ruleVersion);
  });

  it('transforms again what its transformation failed, by its rule alone', () => {
    const { start } = redriveOf(dead('transformation'), now, CATALOG);
    expect(start.topic).toBe(TOPIC.eventsSlow);
    expect(start.entry.key).toBe('w:u');
    expect(JSON.parse(start.entry.value)).toEqual(delivery.event);
    expect(start.entry.headers).toMatchObject({ [HEADER.rules]: 'rule', [HEADER.redrives]: '2' });
    expect(start.entry.headers).not.toHaveProperty(HEADER.outcome);
  });

  it('matches the rule again whose filter failed, and those behind it where they were not evaluated either', () => {
    for (const [cause, match] of [
      ['filter_failed', MATCH.named],
      ['filter_not_evaluated', MATCH.from],
    ] as const) {
      const { start } = redriveOf(dead(cause), now, CATALOG);
      expect(start.topic).toBe(TOPIC.eventsSlow);
      expect(start.entry.headers).toMatchObject({
        [HEADER.match]: match,
        [HEADER.rules]: 'rule',
        [HEADER.redrives]: '2',
      });
    }
    expect(redriveOf(dead('transformation'), now, CATALOG).start.entry.headers).not.toHaveProperty(
      HEADER.match,
    );
  });

  it('gives a transformation that runs again the verdict of the contract', () => {
    const contract = { outcome: 'warned', id: 'c', version: 7 } as const;
    expect(
      redriveOf({ ...dead('transformation'), contract }, now, CATALOG).start.entry.headers,
    ).toMatchObject({
      [HEADER.outcome]: 'warned',
      [HEADER.contractId]: 'c',
      [HEADER.contractVersion]: '7',
    });
  });

  it.each(['destination', 'transformation', 'expired'] as const)(
    'shows a delivery dead by %s as retrying, above its earlier state',
    (cause) => {
      const { outcome } = redriveOf(dead(cause), now, CATALOG);
      const shown = JSON.parse(outcome.value) as DeliveryOutcome;
      expect(shown).toMatchObject({ status: 'retrying', next_attempt_at: '2026-01-02T00:00:00.000Z' });
      expect(outcome.key).toBe('dest:u');
      expect(outcomeVersion(shown)).toBeGreaterThan(outcomeVersion(dead(cause)));
    },
  );
});

describe('canRedrive', () => {
  const state = (destinations: Readonly<Record<string, boolean>>, ruleGoesTo?: string) =>
    ({
      entity: (kind: string, _workspace: string, id: string) => {
        if (kind === 'rule') return ruleGoesTo === undefined ? undefined : { id, destination_id: ruleGoesTo };
        return id in destinations ? { id, enabled: destinations[id] } : undefined;
      },
    }) as never;

  it('needs the destination, enabled', () => {
    expect(canRedrive(dead('destination'), state({ dest: true }))).toBe(true);
    expect(canRedrive(dead('destination'), state({ dest: false }))).toBe(false);
    expect(canRedrive(dead('destination'), state({ other: true }, 'other'))).toBe(false);
  });

  it('needs the rule where the transformation runs again', () => {
    expect(canRedrive(dead('transformation'), state({ dest: true }))).toBe(false);
    expect(canRedrive(dead('filter_failed'), state({ dest: true }))).toBe(false);
    expect(canRedrive(dead('filter_failed'), state({ dest: true }, 'dest'))).toBe(true);
    expect(canRedrive(dead('transformation'), state({ dest: true }, 'dest'))).toBe(true);
  });

  it('asked for the destination of then, where the rule goes elsewhere by now', () => {
    expect(canRedrive(dead('transformation'), state({ other: true }, 'other'))).toBe(true);
    expect(canRedrive(dead('transformation'), state({ dest: true, other: false }, 'other'))).toBe(false);
    expect(canRedrive(dead('transformation'), state({ dest: true }, 'other'))).toBe(false);
  });

  it('needs the rule, enabled, where that stopped it', () => {
    const rule = (enabled?: boolean) =>
      ({
        entity: (kind: string) =>
          kind === 'destination' ? { enabled: true } : enabled === undefined ? undefined : { enabled },
      }) as never;
    expect([true, false, undefined].map((enabled) => canRedrive(dead('rule'), rule(enabled)))).toEqual([
      true,
      false,
      false,
    ]);
    expect(canRedrive(dead('destination'), rule(undefined))).toBe(true);
  });

  it('is for dead ones', () => {
    expect(canRedrive({ ...dead('expired'), status: 'delivered' }, state({ dest: true }))).toBe(false);
  });
});
