import {
  type Identity,
  isRef,
  type Profile,
  type ProfileAttribute,
  type ProfileChange,
  type ProfileWrite,
  type Register,
} from '@tributary/core';
import { consumerFaults, oneOwner } from '../../traffic/verdict.ts';
import type {
  Attempt,
  DeletionAttempt,
  SearchAttempt,
  SimulationRun,
  SplitAttempt,
  UnlinkAttempt,
  WriteAttempt,
} from './run.ts';

/** What the checks read of a run. */
interface Facts extends SimulationRun {
  readonly live: readonly Profile[];
  readonly writes: readonly WriteAttempt[];
  readonly unlinks: readonly UnlinkAttempt[];
  readonly splits: readonly SplitAttempt[];
  readonly deletions: readonly DeletionAttempt[];
  /** The writes of each mark: the same write may have been sent several times. */
  readonly byMark: ReadonlyMap<string, readonly WriteAttempt[]>;
  /** The writes that were sent once. */
  readonly once: readonly WriteAttempt[];
  /** The marks in live profiles. */
  readonly held: ReadonlySet<string>;
  /** Whether a split, or an event of an earlier time, may take identities and values to another profile. */
  readonly isMoving: boolean;
}

type Faults = readonly string[];

/** Lists every violated promise; empty when all were kept. */
export async function violationsOf(run: SimulationRun): Promise<Faults> {
  const live = [...run.node.contents()].flatMap(([, { source }]) =>
    source.state === 'live' ? [(JSON.parse(source.body) as { profile: Profile }).profile] : [],
  );
  const of = <Kind extends Attempt['kind']>(kind: Kind) =>
    run.attempts.filter((one): one is Extract<Attempt, { kind: Kind }> => one.kind === kind);
  const [writes, splitAttempts] = [of('write'), of('split')];
  const byMark = Map.groupBy(writes, ({ mark }) => mark);
  const facts: Facts = {
    ...run,
    live,
    writes,
    unlinks: of('unlink'),
    splits: splitAttempts,
    deletions: of('deletion'),
    byMark,
    once: [...byMark.values()].flatMap((same) => (same.length === 1 ? same : [])),
    held: new Set(live.flatMap(({ consents }) => consents.map(({ name }) => name))),
    isMoving: splitAttempts.length > 0 || writes.some(({ write }) => write.linking === 'keep-people-apart'),
  };
  const leadsTo = await destinations(facts);
  const moved = namesMovedIn(facts);
  return [
    ...oneOwner(live),
    ...(await foundByEveryIdentity(facts)),
    ...nothingLeftHalf(facts),
    ...marks(facts, leadsTo, moved),
    ...overfull(facts),
    ...unlinks(facts),
    ...splits(facts),
    ...origins(facts),
    ...ownValues(facts),
    ...registers(facts),
    ...peopleApart(facts),
    ...searches(facts, moved),
    ...deletions(facts),
    ...broughtBack(facts),
    ...published(facts),
    ...consumerFaults(live, run.changes),
  ];
}

/** The profile that each answered ucid resolves to now: undefined where it was deleted. */
async function destinations({ writes, afterwards }: Facts): Promise<ReadonlyMap<string, string | undefined>> {
  const ucids = new Set(
    writes.flatMap(({ answer }) => (answer?.kind === 'written' ? [answer.profile.ucid] : [])),
  );
  const leadsTo = new Map<string, string | undefined>();
  for (const ucid of ucids) leadsTo.set(ucid, (await afterwards.search([], [ucid]))[0]?.ucid);
  return leadsTo;
}

/**
 * A write is applied completely or not at all. An answered write is in the profile that its answer resolves
 * to, or was deleted with it.
 */
function marks(
  { byMark, live, isMoving, changes }: Facts,
  leadsTo: ReadonlyMap<string, string | undefined>,
  moved: Moved,
): Faults {
  const gone = goneWith(changes);
  return [...byMark].flatMap(([mark, attempts]) => {
    const holders = live.filter(({ consents }) => consents.some(({ name }) => name === mark));
    const places = new Set(holders.map(({ ucid }) => ucid));
    const expected = new Set(
      attempts.flatMap(({ answer }) =>
        answer?.kind === 'written' ? (leadsTo.get(answer.profile.ucid) ?? []) : [],
      ),
    );
    const isKnown = attempts.every(({ answer }) => answer !== undefined);
    const misplaced = [...places].filter((ucid) => !expected.has(ucid));
    // A split, or an event of an earlier time, takes values with the identity that they are about; that profile may be
    // deleted later.
    const isAnywhere = isMoving && (places.size > 0 || gone.has(mark));
    return [
      ...[...expected]
        .filter((ucid) => !places.has(ucid) && !isAnywhere)
        .map((ucid) => `${mark} was answered, and ${ucid} is without it`),
      ...(isKnown && !isMoving
        ? misplaced.map((ucid) => `${mark} is in ${ucid}, where no answer leads`)
        : []),
      ...(attempts.length === 1 && holders.length > 1 ? [`${mark} is in ${[...places].join(', ')}`] : []),
      ...holders.flatMap((holder) => halves(mark, attempts, holder, moved)),
    ];
  });
}

/** Writes that are only partly present in a profile. */
function halves(mark: string, attempts: readonly WriteAttempt[], holder: Profile, moved: Moved): Faults {
  const violations: string[] = [];
  if (!holder.attributes.some(({ path }) => path[1] === mark))
    violations.push(`${mark} is half in ${holder.ucid}`);
  const [only, ...others] = attempts;
  // An event without an answer may have left out any part of its write.
  if (
    only === undefined ||
    others.length > 0 ||
    (only.answer === undefined && only.write.linking !== 'merge')
  )
    return violations;
  const leftOut =
    only.answer?.kind === 'written' ? only.answer.leftOut.map(({ identity }) => nameOf(identity)) : [];
  const held = holder.identities.map(nameOf);
  const missing = only.write.identities
    .map(nameOf)
    .filter((name) => !leftOut.includes(name) && !held.includes(name) && !moved(name));
  return missing.length === 0
    ? violations
    : [...violations, `${mark} is in ${holder.ucid} without ${missing.join(', ')}`];
}

/**
 * Whether an identity may have left its profile: by an unlink, answered or not, by any split, or because
 * newer identities replaced it.
 */
type Moved = (name: string) => boolean;

function namesMovedIn({ unlinks, limits, writes, isMoving }: Facts): Moved {
  const unlinked = new Set(unlinks.map(({ identity }) => nameOf(identity)));
  const types = new Set((limits?.types ?? []).map(({ type }) => type));
  const all = writes.flatMap(({ write }) => write.identities);
  const dropped = new Set(all.filter(({ type }) => types.has(type)).map(nameOf));
  return (name) => isMoving || unlinked.has(name) || dropped.has(name);
}

/**
 * A profile that was split off may rejoin the other only through an explicit write still running when the
 * split began.
 */
function splits({ splits: attempts, unlinks: unlinked, writes, live }: Facts): Faults {
  // An unlink may take the identity away from both sides, so identities no longer show whether the two are
  // one.
  if (unlinked.length > 0) return [];
  const rootOf = (ucid: string) => live.find((one) => one.ucid === ucid || one.linked.includes(ucid))?.ucid;
  return attempts.flatMap(({ answer, begunAt }) => {
    if (answer?.kind !== 'split') return [];
    const [ucid, survivor] = [answer.profile.ucid, answer.survivor.ucid];
    const mayBeOne = writes.some(
      ({ write, endedAt = Number.POSITIVE_INFINITY }) => write.linking === 'merge' && endedAt > begunAt,
    );
    const isOne = rootOf(ucid) !== undefined && rootOf(ucid) === rootOf(survivor);
    return isOne && !mayBeOne ? [`${ucid} was split off from ${survivor}, and is part of it`] : [];
  });
}

/** A value's `from` is a ucid of its profile, or an identity that events were about. */
function origins({ live }: Facts): Faults {
  return live.flatMap(({ ucid, linked, identities, attributes, preferences, consents }) => {
    const names = new Set([ucid, ...linked]);
    return [...identities, ...attributes, ...preferences, ...consents]
      .filter(({ from }) => from !== undefined && !isRef(from) && !names.has(from))
      .map(({ from }) => `${ucid} has something from ${from}, which is no part of it`);
  });
}

/**
 * An identity taken away by an answered unlink may return only through an explicit write still running when
 * the unlink began.
 */
function unlinks({ unlinks: attempts, writes, live }: Facts): Faults {
  return attempts.flatMap(({ identity, answer, begunAt }) => {
    if (answer?.kind !== 'unlinked') return [];
    const { ucid } = answer.profile;
    const holder = live.find((one) => one.ucid === ucid || one.linked.includes(ucid));
    const isBack = holder?.identities.some((one) => nameOf(one) === nameOf(identity));
    const mayBeBack = writes.some(
      ({ write, endedAt = Number.POSITIVE_INFINITY }) => write.linking === 'merge' && endedAt > begunAt,
    );
    return isBack === true && !mayBeBack ? [`${nameOf(identity)} was unlinked from ${ucid} and is back`] : [];
  });
}

/** Two people become one record only through an explicit write. */
function peopleApart({ writes, live, byMark, splits: { length: splitCount } }: Facts): Faults {
  return live.flatMap(({ ucid, consents, identities }) => {
    const people = identities.filter(({ type }) => type === 'user_id');
    const merged = consents.some(({ name }) => byMark.get(name)?.[0]?.write.linking === 'merge');
    // The explicit write that merged the people may have been split off since, with the values of its
    // profile.
    const mayBeMerged = splitCount > 0 && writes.some(({ write }) => write.linking === 'merge');
    return people.length > 1 && !merged && !mayBeMerged
      ? [`${ucid} holds ${people.map(nameOf).join(', ')}, by events alone`]
      : [];
  });
}

/**
 * A search that begins after the answer to a write sees the write, unless its record was deleted; it never
 * shows lost writes.
 */
function searches(
  { attempts, once, deletions: deletedAll, held, unlinks: unlinked, limits }: Facts,
  moved: Moved,
): Faults {
  const known = attempts.filter(
    (one): one is SearchAttempt => one.kind === 'search' && one.found !== undefined,
  );
  const mayBeNobodys = deletedAll.length > 0 || unlinked.length > 0 || limits !== undefined;
  return known.flatMap(({ identity, begunAt, found = [] }) => {
    const violations: string[] = [];
    if (found.length > 1) violations.push(`a search found ${found.length} records of ${nameOf(identity)}`);
    const seen = new Set(found.flatMap(({ consents }) => consents.map(({ name }) => name)));
    const mightBeDeleted = deletedAll.some(({ deleted }) => deleted === undefined || deleted.length > 0);
    for (const { answer, endedAt, write, mark } of once) {
      if (answer?.kind !== 'written' || endedAt === undefined || endedAt > begunAt) continue;
      const leftOut = answer.leftOut.some((one) => nameOf(one.identity) === nameOf(identity));
      const names = write.identities.some((one) => nameOf(one) === nameOf(identity));
      if (names && !leftOut && !moved(nameOf(identity)) && held.has(mark) && !seen.has(mark))
        violations.push(`a search for ${nameOf(identity)} did not see ${mark}, answered before it began`);
      // Splits may give the identity another owner, but it always has one.
      if (names && !leftOut && !mayBeNobodys && found.length === 0)
        violations.push(`a search for ${nameOf(identity)} found nobody after ${mark} was answered`);
    }
    if (!mightBeDeleted) {
      for (const mark of seen)
        if (!held.has(mark)) violations.push(`a search showed ${mark}, which was never durable`);
    }
    return violations;
  });
}

/** A profile with an answered deletion is gone, with all the content that it had at its end. */
function deletions({ deletions: attempts, live, held, once, isMoving, changes }: Facts): Faults {
  const last = isMoving ? lastPublished(changes) : undefined;
  const gone = new Set(attempts.flatMap(({ deleted = [] }) => deleted));
  const back = live.filter(({ ucid, linked }) => [ucid, ...linked].some((one) => gone.has(one)));
  const left = once.filter(({ answer, mark }) => {
    if (answer?.kind !== 'written' || !gone.has(answer.profile.ucid) || !held.has(mark)) return false;
    const { consents } = last?.get(answer.profile.ucid) ?? answer.profile;
    return consents.some(({ name }) => name === mark);
  });
  return [
    ...back.map(({ ucid }) => `${ucid} was deleted and is there`),
    ...left.map(({ mark }) => `${mark} was deleted with its record and is there`),
  ];
}

/** An event from before the deletion of one of its identities must not be written afterwards. */
function broughtBack({ deletions: attempts, held, once }: Facts): Faults {
  const done = attempts.filter(({ deleted = [] }) => deleted.length > 0);
  return once.flatMap(({ mark, write, begunAt, answer }) => {
    const { happenedAt } = write;
    if (answer?.kind !== 'written' || happenedAt === undefined || !held.has(mark)) return [];
    const leftOut = new Set(answer.leftOut.map(({ identity }) => nameOf(identity)));
    const names = new Set(write.identities.map(nameOf).filter((name) => !leftOut.has(name)));
    const before = done.filter(
      (deletion) =>
        names.has(nameOf(deletion.identity)) &&
        happenedAt <= deletion.begunAt &&
        (deletion.endedAt ?? Number.POSITIVE_INFINITY) < begunAt,
    );
    return before.map(
      ({ identity }) => `${mark} happened before ${nameOf(identity)} was deleted, and written after it`,
    );
  });
}

/** The newest published content of each profile. */
function lastPublished(changes: readonly ProfileChange[]): ReadonlyMap<string, Profile> {
  const last = new Map<string, Profile>();
  for (const { ucid, profile } of changes)
    if (profile !== undefined && profile.version > (last.get(ucid)?.version ?? 0)) last.set(ucid, profile);
  return last;
}

/** The marks that profiles had which are deleted. */
function goneWith(changes: readonly ProfileChange[]): ReadonlySet<string> {
  const deleted = new Set(changes.flatMap(({ kind, ucid }) => (kind === 'deleted' ? [ucid] : [])));
  const contents = changes.flatMap(({ ucid, profile }) =>
    deleted.has(ucid) ? (profile?.consents ?? []) : [],
  );
  return new Set(contents.map(({ name }) => name));
}

/** Names an identity in a violation. */
const nameOf = ({ type, value }: Identity) => `${type}=${value}`;

async function foundByEveryIdentity({ live, afterwards }: Facts): Promise<Faults> {
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
function nothingLeftHalf({ node }: Facts): Faults {
  return [...node.contents()].flatMap(([id, { source }]) => {
    if (source.state === 'redirect') return [`${id} is still frozen`];
    return source.dirty === true ? [`${id} is still dirty`] : [];
  });
}

function overfull({ limits, live }: Facts): Faults {
  return (limits?.types ?? []).flatMap(({ type, max }) =>
    live
      .filter(({ identities }) => identities.filter((identity) => identity.type === type).length > max)
      .map(({ ucid }) => `${ucid} has more than ${max} identities of the type ${type}`),
  );
}

/**
 * The last change of every record and every merge was published, and no change twice with different content.
 */
function published({ changes, live, node }: Facts): Faults {
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

/** The answer to a write shows its shared value, or one of a newer time: a write replaces values of its own time. */
function ownValues({ writes }: Facts): Faults {
  return writes.flatMap(({ write, mark, answer }) => {
    const [own] = write.attributes;
    if (answer?.kind !== 'written' || own === undefined || write.ts === undefined) return [];
    const shown = sharedOf(answer.profile).find(({ path }) => path[1] === own.path[1]);
    const isRight = shown !== undefined && (shown.ts > write.ts || isValueOf(shown, write));
    return isRight ? [] : [`the answer to ${mark} shows an older value, or another one of its time`];
  });
}

/**
 * Every shared value is that of the newest write in the profile; of several writes of the same time, that of the last
 * one, as the answers show. After splits it may be absent, or that of an older write: a newer write was split off, or
 * was replaced by one that was.
 */
function registers({ writes, live, byMark, isMoving }: Facts): Faults {
  return live.flatMap((profile) => {
    const { ucid, consents } = profile;
    const newest = new Map<string, readonly WriteAttempt[]>();
    for (const { name } of consents) {
      const attempts = byMark.get(name) ?? [];
      const write = attempts[0]?.write;
      const attribute = write?.attributes[0];
      if (write?.ts === undefined || attribute === undefined)
        return [`${ucid} has ${name}, which nobody wrote`];
      const key = String(attribute.path[1]);
      const known = newest.get(key) ?? [];
      const newestTs = known[0]?.write.ts ?? Number.NEGATIVE_INFINITY;
      if (write.ts >= newestTs) newest.set(key, write.ts > newestTs ? attempts : [...known, ...attempts]);
    }
    const shared = sharedOf(profile);
    if (isMoving) {
      const held = new Set(consents.map(({ name }) => name));
      return shared.flatMap((register) => {
        const isTheirs = writes.some(({ write, mark }) => isValueOf(register, write) && held.has(mark));
        const { path, ts } = register;
        return isTheirs ? [] : [`${ucid} has ${path[1]} of ${ts}, which is of none of its writes`];
      });
    }
    const answered = sharedInAnswers(profile, writes);
    const isRight = shared.every((register) => {
      const key = String(register.path[1]);
      return isLastOf(register, newest.get(key) ?? [], answered.get(key) ?? []);
    });
    return isRight && shared.length === newest.size
      ? []
      : [`the attributes of ${ucid} are not those of its writes`];
  });
}

/**
 * Whether the register may be the last of the newest writes. A profile never returns to an older register than an answer
 * showed. A register that no answer showed is of a write without an answer.
 */
function isLastOf(
  register: ProfileAttribute,
  newest: readonly WriteAttempt[],
  answered: readonly ProfileAttribute[],
): boolean {
  const own = newest.filter(({ write }) => isValueOf(register, write));
  const compared = answered.map((shown) => compareRegisters(register, shown));
  if (own.length === 0 || compared.some((order) => order < 0)) return false;
  return compared.includes(0) || own.some(({ answer }) => answer === undefined);
}

/** The shared values in the answers of the profile, and of those merged into it, by the last name of their path. */
function sharedInAnswers(
  { ucid, linked }: Profile,
  writes: readonly WriteAttempt[],
): ReadonlyMap<string, readonly ProfileAttribute[]> {
  const names = new Set([ucid, ...linked]);
  const shown = writes.flatMap(({ answer }) =>
    answer?.kind === 'written' && names.has(answer.profile.ucid) ? sharedOf(answer.profile) : [],
  );
  return Map.groupBy(shown, ({ path }) => String(path[1]));
}

function sharedOf({ attributes }: Profile): readonly ProfileAttribute[] {
  return attributes.filter(({ path }) => path[0] === 'shared');
}

/** Whether the register holds the shared value of the write. */
function isValueOf(register: ProfileAttribute, write: ProfileWrite): boolean {
  const [attribute] = write.attributes;
  return (
    attribute?.path[1] === register.path[1] &&
    attribute?.value === register.value &&
    attribute?.unset === register.unset &&
    write.ts === register.ts
  );
}

/** Negative where `right` wins over `left`, 0 where they are equal. */
function compareRegisters(left: Register, right: Register): number {
  if (left.ts !== right.ts) return left.ts - right.ts;
  const order = (left.order ?? -1) - (right.order ?? -1);
  if (order !== 0) return order;
  const [text, other] = [textOf(left), textOf(right)];
  return text < other ? -1 : Number(text > other);
}

function textOf({ value, unset }: Pick<Register, 'value' | 'unset'>): string {
  return unset === true ? '' : JSON.stringify(value);
}
