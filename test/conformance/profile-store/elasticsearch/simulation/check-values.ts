import type { Profile, ProfileAttribute, ProfileWrite, Register } from '@tributary/core';
import type { WriteAttempt } from './run.ts';

/** The same write may have been sent several times. */
export function byMark(writes: readonly WriteAttempt[]): ReadonlyMap<string, readonly WriteAttempt[]> {
  return Map.groupBy(writes, ({ mark }) => mark);
}

/** The answer to a write shows its shared value, or one of a newer time: a write replaces values of its own time. */
export function ownValues(writes: readonly WriteAttempt[]): readonly string[] {
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
export function registers(
  writes: readonly WriteAttempt[],
  live: readonly Profile[],
  isSplit: boolean,
): readonly string[] {
  const all = byMark(writes);
  return live.flatMap((profile) => {
    const { ucid, consents } = profile;
    const newest = new Map<string, readonly WriteAttempt[]>();
    for (const { name } of consents) {
      const attempts = all.get(name) ?? [];
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
    if (isSplit) {
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
