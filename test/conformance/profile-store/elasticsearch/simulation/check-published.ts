import type { Profile, ProfileChange } from '@tributary/core';
import type { SimulationRun } from './run.ts';

/**
 * A consumer that keeps the newest change of each ucid, its own or that of a profile listing it, has the
 * current state.
 */
export function toldApart(changes: readonly ProfileChange[], live: readonly Profile[]): readonly string[] {
  const own = new Map<string, number>();
  const asLinked = new Map<string, number>();
  const note = (of: Map<string, number>, ucid: string, version: number) =>
    of.set(ucid, Math.max(version, of.get(ucid) ?? 0));
  for (const { ucid, version, linked } of changes) {
    note(own, ucid, version);
    for (const one of linked) note(asLinked, one, version);
  }
  const isThere = (ucid: string) => (own.get(ucid) ?? 0) > (asLinked.get(ucid) ?? 0);
  return live.flatMap(({ ucid, linked }) => [
    ...(isThere(ucid) ? [] : [`${ucid} is there, and was last told to be part of another`]),
    ...linked.filter(isThere).map((one) => `${one} is part of ${ucid}, and was last told to be there`),
  ]);
}

/**
 * The last change of every record and every merge was published, and no change twice with different content.
 */
export function published(
  changes: readonly ProfileChange[],
  live: readonly Profile[],
  node: SimulationRun['node'],
): readonly string[] {
  const last = new Map<string, ProfileChange>();
  const told = new Set(changes.flatMap(({ linked }) => linked));
  const contents = new Map<string, string>();
  const violations: string[] = [];
  for (const change of changes) {
    if (change.version > (last.get(change.ucid)?.version ?? 0)) last.set(change.ucid, change);
    const key = `${change.ucid} ${change.version}`;
    const text = JSON.stringify(change.profile ?? change.kind);
    if ((contents.get(key) ?? text) !== text)
      violations.push(`version ${key} was published with two contents`);
    contents.set(key, text);
  }
  for (const profile of live) {
    const change = last.get(profile.ucid);
    if (change?.version !== profile.version || JSON.stringify(change.profile) !== JSON.stringify(profile))
      violations.push(`${profile.ucid} is at ${profile.version}, and published is ${change?.version}`);
    for (const ucid of profile.linked)
      if (!told.has(ucid)) violations.push(`that ${ucid} became ${profile.ucid} was not published`);
  }
  for (const [id, { source }] of node.contents()) {
    if (source.state !== 'deleted') continue;
    const { ucid, deletedAt } = JSON.parse(source.body) as { ucid: string; deletedAt: number };
    if (deletedAt > 0 && last.get(ucid)?.kind !== 'deleted')
      violations.push(`that ${id} was deleted was not published`);
  }
  return violations;
}
