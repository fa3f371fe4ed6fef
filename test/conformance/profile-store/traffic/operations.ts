import type { ProfileDeletion, ProfileScope, ProfileUnlink, ProfileWrite } from '@tributary/core';
import { Dice } from '../../../chaos/dice.ts';

/**
 * The operations of many writers on the same people at the same time, drawn from a seed: a writer restarted
 * after a kill repeats the same operations.
 */
export interface Traffic {
  readonly scope: ProfileScope;
  readonly seed: number;
  /** Groups of identities that writes eventually join into one profile, three at a time or in chains. */
  readonly groups: number;
  readonly identitiesOfGroup: number;
  /** Shares of deletions, and of events, which keep people apart. */
  readonly deletions: number;
  readonly events: number;
  /** Share of unlinks, and of splits of ucids that the writer got in answers. Default none. */
  readonly unlinks?: number;
  readonly splits?: number;
}

/** Whether identities and values may leave a surviving profile. */
export function isMoving({ unlinks = 0, splits = 0 }: Traffic): boolean {
  return unlinks + splits > 0;
}

export type Operation =
  | { readonly kind: 'write'; readonly id: string; readonly write: ProfileWrite }
  | { readonly kind: 'delete'; readonly id: string; readonly deletion: ProfileDeletion }
  | { readonly kind: 'unlink'; readonly id: string; readonly unlink: ProfileUnlink }
  /** `which`: index into the ucids that the writer got in answers. */
  | { readonly kind: 'split'; readonly id: string; readonly which: number };

/** Attributes written together: a profile that shows one of them by a write must show both. */
export const PAIR = ['left', 'right'] as const;

const GROUP_ATTRIBUTES = 5;
const TIMES = 1_000_000;

/** The `n`th operation of a writer. */
export function operationOf(traffic: Traffic, writer: number, n: number): Operation {
  const dice = new Dice(traffic.seed * 1_000_003 + writer * 10_007 + n * 31);
  // The first rolls of neighbouring seeds are alike.
  for (let skipped = 0; skipped < 3; skipped++) dice.roll();
  const id = `${writer}-${n}`;
  const group = Math.floor(dice.between(0, traffic.groups));
  const count = 1 + Math.floor(dice.between(0, 3));
  const members = Array.from({ length: count }, () => Math.floor(dice.between(0, traffic.identitiesOfGroup)));
  const distinct = [...new Set(members)];
  if (dice.falls(traffic.deletions)) {
    const { org, region } = traffic.scope;
    const identities = distinct.map((member) => groupIdentity(group, member));
    return { kind: 'delete', id, deletion: { org, regions: [region], identities, ucids: [] } };
  }
  const { unlinks = 0, splits = 0 } = traffic;
  if (unlinks > 0 && dice.falls(unlinks)) {
    const identities = [groupIdentity(group, members[0] ?? 0)];
    return { kind: 'unlink', id, unlink: { ...traffic.scope, identities } };
  }
  if (splits > 0 && dice.falls(splits))
    return { kind: 'split', id, which: Math.floor(dice.between(0, 1_000)) };
  const isEvent = dice.falls(traffic.events);
  const name = `a-${Math.floor(dice.between(0, GROUP_ATTRIBUTES))}`;
  const write: ProfileWrite = {
    ...traffic.scope,
    identities: isEvent
      ? [
          { type: 'user_id', value: `u-${group}-${members[0]}` },
          { type: 'anonymous_id', value: `d-${group}-${(members.at(-1) ?? 0) % 3}` },
        ]
      : distinct.map((member) => groupIdentity(group, member)),
    attributes: PAIR.map((side) => ({ path: [name, side], value: id })),
    preferences: [{ name, value: id }],
    consents: [{ name, value: id }],
    ts: 1 + Math.floor(dice.between(0, TIMES)),
    linking: isEvent ? 'keep-people-apart' : 'merge',
  };
  return { kind: 'write', id, write };
}

/** The group of the write's identities: writes of other groups never meet it. */
export function groupOf({ identities }: Pick<ProfileWrite, 'identities'>): string {
  return identities[0]?.value.split('-')[1] ?? '';
}

function groupIdentity(group: number, member: number) {
  return { type: 'cookie', value: `c-${group}-${member}` };
}
