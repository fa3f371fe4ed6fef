import {
  type Identity,
  isRef,
  type Json,
  type Profile,
  type ProfileChange,
  type ProfileStore,
} from '@tributary/core';
import type { WriterLine } from '../programs/writer.ts';
import { groupOf, isMoving, type Operation, operationOf, PAIR, type Traffic } from './operations.ts';

type PublishedLine = Extract<WriterLine, { kind: 'published' }>;

const SEARCHED_AT_ONCE = 100;

interface Written {
  readonly operation: Extract<Operation, { kind: 'write' }>;
  readonly ucid: string;
  readonly leftOut: number;
}

/**
 * Lists faults of the profiles after the traffic, given the answers that the writers got; empty when all
 * promises were kept. Independent of the store: it reads through the port, and replays the writes itself.
 */
export async function verdictOn(
  store: ProfileStore,
  traffic: Traffic,
  lines: readonly WriterLine[],
): Promise<readonly string[]> {
  const answered = writesIn(traffic, lines);
  const published = lines.filter((line) => line.kind === 'published');
  const gone = new Set(
    published.flatMap(({ change, ucid, linked }) => (change === 'deleted' ? [ucid, ...linked] : [])),
  );
  const byUcid = await rootsOf(store, traffic, [...new Set(answered.map(({ ucid }) => ucid))]);
  const writes = await withUsers(store, traffic, answered, byUcid);
  const live = [...new Map([...byUcid.values()].map((profile) => [profile.ucid, profile])).values()];
  return [
    ...lines.flatMap((line) => (line.kind === 'broken' ? [line.what] : [])),
    ...ucidFaults(answered, byUcid, gone),
    ...oneOwner(live),
    ...live.flatMap(({ ucid, identities }) => {
      const users = identities.filter(({ type }) => type === 'user_id');
      return users.length > 1 ? [`${ucid} is ${users.length} users`] : [];
    }),
    ...(await claimFaults(store, traffic, writes, byUcid)),
    ...(isMoving(traffic)
      ? movingFaults(live, writes, byUcid, attemptedOnce(lines))
      : [
          ...writes.flatMap((written) => lostBy(written, byUcid.get(written.ucid))),
          ...live.flatMap((profile) => contentFaults(profile, writes, byUcid)),
        ]),
    ...publicationFaults(live, published),
    ...consumerFaults(live, published),
  ];
}

function writesIn(traffic: Traffic, lines: readonly WriterLine[]): readonly Written[] {
  return lines.flatMap((line) => {
    if (line.kind !== 'written') return [];
    const operation = operationOf(traffic, line.writer, line.n);
    return operation.kind === 'write' ? [{ operation, ucid: line.ucid, leftOut: line.leftOut }] : [];
  });
}

/** The live profile that each ucid resolves to. */
async function rootsOf(
  store: ProfileStore,
  { scope: { org, region } }: Traffic,
  ucids: readonly string[],
): Promise<Map<string, Profile>> {
  const roots = new Map<string, Profile>();
  for (let at = 0; at < ucids.length; at += SEARCHED_AT_ONCE) {
    const some = ucids.slice(at, at + SEARCHED_AT_ONCE);
    const found = await store.search({ org, regions: [region], identities: [], ucids: some });
    for (const profile of found)
      for (const ucid of some)
        if (profile.ucid === ucid || profile.linked.includes(ucid)) roots.set(ucid, profile);
  }
  return roots;
}

/**
 * The writes with the ucid of the profile that they belong to. An event stays with its user, while the ucid that it was
 * answered with may stay with the device, where an event of an earlier time parts the two.
 */
async function withUsers(
  store: ProfileStore,
  { scope: { org, region } }: Traffic,
  writes: readonly Written[],
  byUcid: Map<string, Profile>,
): Promise<readonly Written[]> {
  const users = new Map<string, Promise<readonly Profile[]>>();
  return Promise.all(
    writes.map(async (written) => {
      const { linking, identities } = written.operation.write;
      const [user] = identities;
      if (linking === 'merge' || user === undefined) return written;
      const search = { org, regions: [region], identities: [user], ucids: [] };
      const found = users.get(user.value) ?? store.search(search);
      users.set(user.value, found);
      const [profile] = await found;
      if (profile === undefined || !byUcid.has(written.ucid)) return written;
      byUcid.set(profile.ucid, profile);
      return { ...written, ucid: profile.ucid };
    }),
  );
}

function ucidFaults(
  writes: readonly Written[],
  byUcid: ReadonlyMap<string, Profile>,
  gone: ReadonlySet<string>,
): readonly string[] {
  return writes
    .filter(({ ucid }) => !byUcid.has(ucid) && !gone.has(ucid))
    .map(({ operation, ucid }) => `${operation.id} was answered with ${ucid}, which leads to nothing`);
}

/** No identity has several owners. */
export function oneOwner(live: readonly Profile[]): readonly string[] {
  const owned = live.flatMap(({ ucid, identities }) =>
    identities.map(({ type, value }) => ({ name: `${type}=${value}`, ucid })),
  );
  return [...Map.groupBy(owned, ({ name }) => name)].flatMap(([name, owners]) =>
    owners.length > 1 ? [`${name} has several owners: ${owners.map(({ ucid }) => ucid).join(', ')}`] : [],
  );
}

/** Every identity of a live profile finds that profile, and a write's identities are on its profile. */
async function claimFaults(
  store: ProfileStore,
  traffic: Traffic,
  writes: readonly Written[],
  byUcid: ReadonlyMap<string, Profile>,
): Promise<readonly string[]> {
  const { org, region } = traffic.scope;
  const faults: string[] = [];
  const identities = new Map(
    writes.flatMap(({ operation: { write } }) =>
      write.identities.map((identity) => [`${identity.type}:${identity.value}`, identity] as const),
    ),
  );
  for (const [name, identity] of identities) {
    const found = await store.search({ org, regions: [region], identities: [identity], ucids: [] });
    if (found.length > 1) faults.push(`${name} finds ${found.length} profiles`);
    const lists = found[0]?.identities.some(({ type, value }) => `${type}:${value}` === name);
    if (found.length === 1 && lists !== true)
      faults.push(`${name} finds ${found[0]?.ucid}, which has it not`);
  }
  for (const { operation, ucid, leftOut } of writes) {
    const profile = byUcid.get(ucid);
    if (profile === undefined) continue;
    const held = new Set(profile.identities.map(({ type, value }) => `${type}:${value}`));
    if (isMoving(traffic)) continue;
    // An event of an earlier time may have taken the device.
    const isOwn =
      operation.write.linking === 'merge' ? () => true : ({ type }: Identity) => type === 'user_id';
    const missing = operation.write.identities
      .filter(isOwn)
      .filter(({ type, value }) => !held.has(`${type}:${value}`));
    if (missing.length > leftOut) faults.push(`${operation.id} lost ${missing.length} identities`);
  }
  return faults;
}

interface Value {
  readonly path: string;
  readonly ts: number;
  readonly value: Json;
}

/** Every value a write writes. */
function valuesOf({ operation: { write } }: Written): readonly Value[] {
  const ts = write.ts ?? 0;
  const at = (kind: string, name: string, value: Json) => ({ path: `${kind} ${name}`, ts, value });
  return [
    ...write.attributes.map(({ path, value }) => at('attribute', path.join('.'), value)),
    ...write.preferences.map(({ name, value }) => at('preference', name, value)),
    ...write.consents.map(({ name, value }) => at('consent', name, value)),
  ];
}

function heldBy(profile: Profile): ReadonlyMap<string, Value> {
  const at = (kind: string, name: string, ts: number, value: Json) => ({
    path: `${kind} ${name}`,
    ts,
    value,
  });
  const values = [
    ...profile.attributes.map(({ path, ts, value }) => at('attribute', path.join('.'), ts, value)),
    ...profile.preferences.map(({ name, ts, value }) => at('preference', name, ts, value)),
    ...profile.consents.map(({ name, ts, value }) => at('consent', name, ts, value)),
  ];
  return new Map(values.map((value) => [value.path, value]));
}

const isNewer = (one: Value, other: Value) =>
  one.ts > other.ts || (one.ts === other.ts && JSON.stringify(one.value) > JSON.stringify(other.value));

/** A write's content is present, or was replaced by newer content. */
function lostBy(written: Written, profile: Profile | undefined): readonly string[] {
  if (profile === undefined) return [];
  const held = heldBy(profile);
  return valuesOf(written)
    .filter((value) => {
      const there = held.get(value.path);
      return there === undefined || isNewer(value, there);
    })
    .map(({ path }) => `${written.operation.id} lost ${path}`);
}

/** The content of a profile must equal a serial replay, by time, of the writes that were answered with it. */
function contentFaults(
  profile: Profile,
  writes: readonly Written[],
  byUcid: ReadonlyMap<string, Profile>,
): readonly string[] {
  const its = writes.filter(({ ucid }) => byUcid.get(ucid)?.ucid === profile.ucid);
  const replayed = new Map<string, Value>();
  for (const value of its.flatMap(valuesOf)) {
    const before = replayed.get(value.path);
    if (before === undefined || isNewer(value, before)) replayed.set(value.path, value);
  }
  const held = heldBy(profile);
  const faults = [...held]
    .filter(([path, { ts, value }]) => replayed.get(path)?.ts !== ts || replayed.get(path)?.value !== value)
    .map(([path, { value, ts }]) => {
      const { value: expected, ts: at } = replayed.get(path) ?? {};
      return `${profile.ucid} has ${value} at ${ts} as ${path}, not ${expected} at ${at}`;
    });
  return [...faults, ...halvesIn(profile, held)];
}

/** Writes of which the profile shows one of the two attributes. */
function halvesIn(profile: Profile, held: ReadonlyMap<string, Value>): readonly string[] {
  const names = new Set(profile.attributes.map(({ path }) => path[0]));
  return [...names].flatMap((name) => {
    const [left, right] = PAIR.map((side) => held.get(`attribute ${name}.${side}`)?.value);
    return left === right ? [] : [`${profile.ucid} shows half a write in ${name}`];
  });
}

/**
 * The writes that were sent once, as `<writer>-<n>`: the first attempt of a repeated write may have been
 * carried out too.
 */
function attemptedOnce(lines: readonly WriterLine[]): (id: string) => boolean {
  const attempts = new Map<string, number>();
  for (const line of lines) {
    if (line.kind !== 'begun') continue;
    const id = `${line.writer}-${line.n}`;
    attempts.set(id, (attempts.get(id) ?? 0) + 1);
  }
  return (id) => attempts.get(id) === 1;
}

/**
 * Where values may be split off, a profile may hold less than a replay gives, but each value is in a profile of its group.
 * The newest value of its group hides the others wherever it is, so it must be present.
 */
function movingFaults(
  live: readonly Profile[],
  writes: readonly Written[],
  byUcid: ReadonlyMap<string, Profile>,
  isOnce: (id: string) => boolean,
): readonly string[] {
  const byId = new Map(writes.map((written) => [written.operation.id, written]));
  const newest = new Map<string, Value>();
  const placeIn = ({ operation: { write } }: Written, { path }: Value) => `${groupOf(write)} ${path}`;
  for (const written of writes)
    for (const value of valuesOf(written)) {
      const path = placeIn(written, value);
      const before = newest.get(path);
      if (before === undefined || isNewer(value, before)) newest.set(path, value);
    }
  const held = new Set(
    live.flatMap((profile) =>
      [...heldBy(profile).values()].map(({ path, value }) => `${path}=${String(value)}`),
    ),
  );
  const lost = writes.flatMap((written) => {
    if (!byUcid.has(written.ucid) || !isOnce(written.operation.id)) return [];
    return valuesOf(written)
      .filter((value) => newest.get(placeIn(written, value)) === value)
      .filter(({ path, value }) => !held.has(`${path}=${String(value)}`))
      .map(({ path }) => `${written.operation.id} lost ${path}`);
  });
  return [...lost, ...live.flatMap((profile) => strangersIn(profile, byId, byUcid))];
}

/** Values in a profile that were written elsewhere, and partial writes. */
function strangersIn(
  profile: Profile,
  byId: ReadonlyMap<string, Written>,
  byUcid: ReadonlyMap<string, Profile>,
): readonly string[] {
  const held = heldBy(profile);
  const groups = new Set(profile.identities.map(({ value }) => value.split('-')[1]));
  const strangers = [...held.values()].flatMap(({ path, ts, value }) => {
    const written = byId.get(String(value));
    if (written?.operation.write.ts !== ts) return [`${profile.ucid} has ${value} at ${ts} as ${path}`];
    const at = byUcid.get(written.ucid)?.ucid;
    return at === profile.ucid || groups.size === 0 || groups.has(groupOf(written.operation.write))
      ? []
      : [`${profile.ucid} has ${value} as ${path}, which was written to ${written.ucid}, now ${at}`];
  });
  const owned = new Set([profile.ucid, ...profile.linked]);
  const unknown = [...profile.identities, ...profile.attributes].filter(
    ({ from }) => from !== undefined && !isRef(from) && !owned.has(from),
  );
  return [
    ...strangers,
    ...halvesIn(profile, held),
    ...unknown.map(({ from }) => `${profile.ucid} has something from ${from}, which is no part of it`),
  ];
}

/**
 * A consumer that keeps the newest change of each ucid, its own or that of a profile listing it, has the
 * current state.
 */
export function consumerFaults(
  live: readonly Profile[],
  changes: readonly Pick<ProfileChange, 'ucid' | 'version' | 'linked'>[],
): readonly string[] {
  const own = new Map<string, number>();
  const asLinked = new Map<string, number>();
  for (const { ucid, version, linked } of changes) {
    own.set(ucid, Math.max(version, own.get(ucid) ?? 0));
    for (const one of linked) asLinked.set(one, Math.max(version, asLinked.get(one) ?? 0));
  }
  const isThere = (ucid: string) => (own.get(ucid) ?? 0) > (asLinked.get(ucid) ?? 0);
  return live.flatMap(({ ucid, linked }) => [
    ...(isThere(ucid) ? [] : [`${ucid} is there, and was last told to be part of another`]),
    ...linked.filter(isThere).map((one) => `${one} is part of ${ucid}, and was last told to be there`),
  ]);
}

/** The last change of a live profile was published. */
function publicationFaults(live: readonly Profile[], published: readonly PublishedLine[]): readonly string[] {
  const last = new Map<string, number>();
  for (const { ucid, version } of published) last.set(ucid, Math.max(version, last.get(ucid) ?? 0));
  return live
    .filter(({ ucid, version }) => last.get(ucid) !== version)
    .map(({ ucid, version }) => `${ucid} is at version ${version}, published is ${last.get(ucid)}`);
}
