import type { Identity, IdentityLimits, Profile } from '@tributary/core';
import type { SimulationRun } from './run.ts';

/** Names an identity in a violation. */
export const nameOf = ({ type, value }: Identity) => `${type}=${value}`;

export function oneOwner(live: readonly Profile[]): readonly string[] {
  const owners = new Map<string, string[]>();
  for (const { ucid, identities } of live) {
    for (const identity of identities) {
      const name = nameOf(identity);
      owners.set(name, [...(owners.get(name) ?? []), ucid]);
    }
  }
  return [...owners].flatMap(([name, ucids]) =>
    ucids.length > 1 ? [`${name} has several owners: ${ucids.join(', ')}`] : [],
  );
}

export async function foundByEveryIdentity(
  live: readonly Profile[],
  afterwards: SimulationRun['afterwards'],
): Promise<readonly string[]> {
  const violations: string[] = [];
  for (const profile of live) {
    for (const identity of profile.identities) {
      const found = await afterwards.search([identity], []);
      if (found.length !== 1 || found[0]?.ucid !== profile.ucid)
        violations.push(
          `${nameOf(identity)} of ${profile.ucid} leads to ${found.map(({ ucid }) => ucid).join(', ')}`,
        );
    }
  }
  return violations;
}

/** After sweeps without load, no merge is in progress and nothing of a deleted profile is left. */
export function nothingLeftHalf(node: SimulationRun['node']): readonly string[] {
  return [...node.contents()].flatMap(([id, { source }]) => {
    if (source.state === 'redirect') return [`${id} is still frozen`];
    return source.dirty === true ? [`${id} is still dirty`] : [];
  });
}

export function overfull(limits: IdentityLimits | undefined, live: readonly Profile[]): readonly string[] {
  return (limits?.types ?? []).flatMap(({ type, max }) =>
    live
      .filter(({ identities }) => identities.filter((identity) => identity.type === type).length > max)
      .map(({ ucid }) => `${ucid} has more than ${max} identities of the type ${type}`),
  );
}
