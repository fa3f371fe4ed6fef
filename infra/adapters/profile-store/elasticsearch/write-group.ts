import {
  applyWrite,
  type Identity,
  leftOutOf,
  linkingOf,
  type Profile,
  type ProfileChange,
  type ProfileWrite,
  type ProfileWriteOutcome,
} from '@tributary/core';
import { holds } from './holds.ts';
import type { WritePlan } from './write-plan.ts';

/** Of the profiles that writes of one group come to, together: each is sorted and written as JSON, and nobody else runs. */
const MAX_CHARACTERS = 1024 * 1024;

/** What several writes of one profile come to, done one after the other and committed as one. */
export interface WriteGroup {
  /** Of the planned write and of the first ones of the others; those beyond have to be planned on their own. */
  readonly outcomes: readonly [ProfileWriteOutcome, ...ProfileWriteOutcome[]];
  readonly profile: Profile;
  /** The JSON of `profile`. */
  readonly text: string;
  /** Absent where none of them changed anything. */
  readonly change?: ProfileChange;
  /** Identities that the profile had no room for. */
  readonly dropped: readonly Identity[];
}

/** The planned write, and with it those that follow as long as they concern the very profile that it makes. */
export function groupOf(
  { applied, leftOut, deletions }: Extract<WritePlan, { kind: 'write' }>,
  others: readonly ProfileWrite[],
  now: number,
): WriteGroup {
  const outcomes: ProfileWriteOutcome[] = [];
  let latest = applied;
  const dropped = [...applied.dropped];
  const keepsAll = Object.keys(deletions).length === 0;
  let characters = 0;
  for (const write of others) {
    if (latest.kind === 'changed') characters += latest.text.length;
    if (!keepsAll || characters > MAX_CHARACTERS || !concerns(write, latest.profile)) break;
    const { profile } = latest;
    const linking = linkingOf(write, {
      owners: write.identities.map(() => ({ kind: 'live', profile })),
      named: write.ucid === undefined ? undefined : profile,
    });
    if (linking.kind === 'refused' || linking.leftOut.length > 0) break;
    const next = applyWrite([profile], linking.identities, write, now);
    if (next.kind === 'refused') {
      outcomes.push(next);
      continue;
    }
    dropped.push(...next.dropped);
    const leftOut = leftOutOf(linking, write, next.dropped);
    outcomes.push({ kind: 'written', profile: next.profile, leftOut });
    if (next.kind === 'changed') latest = { ...next, change: together(latest, next.change) };
  }
  const first = { kind: 'written', profile: applied.profile, leftOut } as const;
  return {
    outcomes: [first, ...outcomes],
    profile: latest.profile,
    dropped,
    ...(latest.kind === 'changed'
      ? { text: latest.text, change: latest.change }
      : { text: JSON.stringify(latest.profile) }),
  };
}

function concerns(
  { org, region, identities, ucid, previousIdentity, olderSpellings }: ProfileWrite,
  profile: Profile,
): boolean {
  return (
    previousIdentity === undefined &&
    olderSpellings === undefined &&
    org === profile.org &&
    region === profile.region &&
    (ucid === undefined || ucid === profile.ucid || profile.linked.includes(ucid)) &&
    identities.every((identity) => holds(profile, identity))
  );
}

function together(earlier: { kind: string; change?: ProfileChange }, later: ProfileChange): ProfileChange {
  return earlier.change === undefined || earlier.change.linked.length === 0
    ? later
    : { ...later, kind: 'merged', linked: [...earlier.change.linked, ...later.linked] };
}
