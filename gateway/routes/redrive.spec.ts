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

interface Rule {
  readonly destination_id: string;
  readonly enabled?: boolean;
}

const TO_DEST = { destination_id: 'dest' };
const TO_OTHER = { destination_id: 'other' };

it.each<[DeadCause, Readonly<Record<string, boolean>>, Rule | undefined, boolean]>([
  // The destination is there and enabled.
  ['destination', { dest: true }, undefined, true],
  ['destination', { dest: false }, undefined, false],
  ['destination', { other: true }, TO_OTHER, false],
  // The rule is there where the transformation runs again, and its destination of now counts, not that of then.
  ['transformation', { dest: true }, undefined, false],
  ['transformation', { dest: true }, TO_DEST, true],
  ['filter_failed', { dest: true }, undefined, false],
  ['filter_failed', { dest: true }, TO_DEST, true],
  ['transformation', { other: true }, TO_OTHER, true],
  ['transformation', { dest: true, other: false }, TO_OTHER, false],
  ['transformation', { dest: true }, TO_OTHER, false],
  // The rule is enabled where it stopped the event.
  ['rule', { dest: true }, { ...TO_DEST, enabled: true }, true],
  ['rule', { dest: true }, { ...TO_DEST, enabled: false }, false],
  ['rule', { dest: true }, undefined, false],
])(
  'a delivery dead by %s is redriven with the destinations %j and the rule %j: %s',
  (cause, of, rule, can) => {
    const state = {
      entity: (kind: string, _workspace: string, id: string) =>
        kind === 'rule' ? rule : id in of ? { enabled: of[id] } : undefined,
    } as never;
    expect(canRedrive(dead(cause), state)).toBe(can);
    expect(canRedrive({ ...dead(cause), status: 'delivered' }, state)).toBe(false);
  },
);
