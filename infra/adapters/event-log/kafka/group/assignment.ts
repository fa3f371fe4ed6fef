/** A member at the time of a join. */
export interface Member {
  readonly id: string;
  /** The partitions that it reliably owns, as `topic/partition`. */
  readonly owned: readonly string[];
}

/**
 * The partitions of each member, as `topic/partition`, by member id. Evenly per topic and over all topics; a member keeps
 * its partitions as far as that goes. A partition that is to move is assigned to no member until its owner joins again
 * without it.
 */
export function assign(
  topics: ReadonlyMap<string, number>,
  members: readonly Member[],
): ReadonlyMap<string, readonly string[]> {
  const ids = members.map(({ id }) => id).sort();
  const owners = ownersOf(members);
  const target = new Map(ids.map((id) => [id, [] as string[]]));
  for (const [topic, partitions] of [...topics].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const names = Array.from({ length: partitions }, (_, partition) => `${topic}/${partition}`);
    for (const [id, part] of shareOut(names, ids, owners, target)) target.get(id)?.push(...part);
  }
  return new Map(
    [...target].map(([id, part]) => [id, part.filter((name) => (owners.get(name) ?? id) === id)]),
  );
}

/** The owner of each partition that one member alone claims. */
function ownersOf(members: readonly Member[]): ReadonlyMap<string, string> {
  const owners = new Map<string, string>();
  const contested = new Set<string>();
  for (const { id, owned } of members) {
    for (const name of owned) {
      if (owners.has(name)) contested.add(name);
      owners.set(name, id);
    }
  }
  for (const name of contested) owners.delete(name);
  return owners;
}

/** The partitions of one topic: as many for each member, the odd ones for those with the fewest so far. */
function shareOut(
  names: readonly string[],
  ids: readonly string[],
  owners: ReadonlyMap<string, string>,
  soFar: ReadonlyMap<string, readonly string[]>,
): ReadonlyMap<string, readonly string[]> {
  const owns = (id: string) => names.filter((name) => owners.get(name) === id);
  const least = Math.floor(names.length / ids.length);
  const odd = names.length % ids.length;
  const byNeed = [...ids].sort((a, b) => {
    const [haveA, haveB] = [soFar.get(a)?.length ?? 0, soFar.get(b)?.length ?? 0];
    return haveA - haveB || owns(b).length - owns(a).length;
  });
  const parts = new Map<string, string[]>();
  const free = new Set(names);
  const quotaOf = new Map(byNeed.map((id, i) => [id, least + (i < odd ? 1 : 0)]));
  for (const [id, quota] of quotaOf) {
    const kept = owns(id).slice(0, quota);
    for (const name of kept) free.delete(name);
    parts.set(id, kept);
  }
  for (const [id, quota] of quotaOf) {
    const part = parts.get(id) ?? [];
    for (const name of free) {
      if (part.length >= quota) break;
      part.push(name);
      free.delete(name);
    }
  }
  return parts;
}
