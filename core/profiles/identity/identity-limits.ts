import { type HeldIdentity, type Identity, MAX_PROFILE_IDENTITIES } from '../profile.ts';
import { compareText, keptIfSame } from '../registers.ts';
import { namespaceOf } from './identity.ts';

/*
 * How many identities a profile has. Of a type that drops its oldest, a profile has the newest, so a person who comes
 * with a new device every day goes on being known; any other identity past a bound is refused.
 *
 * - Of all types that are not strong together: `MAX_PROFILE_IDENTITIES`. The oldest `anonymous_id`s make room for others.
 * - Strong types have `STRONG_ROOM` more, which nothing else takes up.
 * - Of one type: what the organization says.
 */

/** The bound of one type. */
export interface TypeLimit {
  readonly type: string;
  readonly max: number;
  /** The oldest goes when one more comes. False: one more is refused. */
  readonly drop_oldest: boolean;
}

/** The bounds of an organization. */
export interface IdentityLimits {
  readonly types: readonly TypeLimit[];
  /** Different `user_id`s that one identity may bring together. */
  readonly user_ids: number;
}

/** The identity type that makes a profile that of a person. */
export const PERSON = 'user_id';
/** The type whose oldest identities make room where all types together are at their bound. */
const DEVICE = 'anonymous_id';

/** Namespaces that name a person rather than a device or a browser. */
const STRONG: ReadonlySet<string> = new Set([PERSON, 'email', 'cellphone', 'phone']);
/** Strong identities that a profile has room for when it is full of others. */
export const STRONG_ROOM = 100;

export const DEFAULT_LIMITS: IdentityLimits = {
  types: [{ type: DEVICE, max: 300, drop_oldest: true }],
  user_ids: 100,
};

export function isStrongType(type: string): boolean {
  return STRONG.has(type) || STRONG.has(namespaceOf(type));
}

/** The limit of a type; undefined where it has none of its own. */
export function limitOf({ types }: IdentityLimits, type: string): TypeLimit | undefined {
  return types.find((limit) => limit.type === type);
}

/** How many identities of each type there are, in one profile or in several that become one. */
export class IdentityCounts {
  readonly #limits: IdentityLimits;
  readonly #byType = new Map<string, number>();
  #all = 0;

  constructor(limits: IdentityLimits, identities: readonly Identity[] = []) {
    this.#limits = limits;
    this.add(identities);
  }

  add(identities: readonly Identity[]): void {
    for (const { type } of identities) this.#byType.set(type, (this.#byType.get(type) ?? 0) + 1);
    this.#all += identities.length;
  }

  /**
   * Whether these fit in as well, with the oldest of some types dropped. A type that only one side has fits however many
   * there are: a bound that was lowered later splits no profile.
   */
  hasRoomFor(identities: readonly Identity[]): boolean {
    if (this.#all + identities.length <= leastLimit(this.#limits)) return true;
    const after = new IdentityCounts(this.#limits);
    for (const [type, count] of this.#byType) after.#byType.set(type, count);
    after.add(identities);
    const added = new Set(identities.map(({ type }) => type));
    for (const type of added) {
      const limit = limitOf(this.#limits, type);
      if (limit?.drop_oldest === false && this.#of(type) > 0 && after.#of(type) > limit.max) return false;
    }
    const { weak, strong } = after.#sums();
    const isStrong = [...added].every(isStrongType);
    if (weak + strong > MAX_PROFILE_IDENTITIES + STRONG_ROOM) return false;
    if (!isStrong && weak > MAX_PROFILE_IDENTITIES) return false;
    return !added.has(DEVICE) || after.kept(DEVICE) > 0;
  }

  /** How many of a type stay. More of the other types never makes it more, so folds keep the same in every order. */
  kept(type: string): number {
    const limit = limitOf(this.#limits, type);
    const own = limit?.drop_oldest === true ? Math.min(limit.max, this.#of(type)) : this.#of(type);
    if (type !== DEVICE) return own;
    const { weak, strong } = this.#sums();
    const room = Math.min(
      MAX_PROFILE_IDENTITIES - weak,
      MAX_PROFILE_IDENTITIES + STRONG_ROOM - weak - strong,
    );
    return Math.max(0, Math.min(own, room));
  }

  /** Types of which the oldest have to go. */
  *overfull(): Generator<readonly [type: string, kept: number]> {
    for (const [type, count] of this.#byType) {
      const kept = this.kept(type);
      if (kept < count) yield [type, kept];
    }
  }

  #of(type: string): number {
    return this.#byType.get(type) ?? 0;
  }

  /** Without those that make room. */
  #sums(): { readonly weak: number; readonly strong: number } {
    let [weak, strong] = [0, 0];
    for (const type of this.#byType.keys()) {
      if (type === DEVICE) continue;
      if (isStrongType(type)) strong += this.kept(type);
      else weak += this.kept(type);
    }
    return { weak, strong };
  }
}

/** Whether there are more identities than any write may bring about. */
export function isTooMany(identities: readonly Identity[]): boolean {
  if (identities.length <= MAX_PROFILE_IDENTITIES) return false;
  const weak = identities.filter(({ type }) => !isStrongType(type)).length;
  return weak > MAX_PROFILE_IDENTITIES || identities.length > MAX_PROFILE_IDENTITIES + STRONG_ROOM;
}

export interface Capped {
  /** The very list that was given where all stay. */
  readonly kept: readonly HeldIdentity[];
  readonly dropped: readonly Identity[];
}

/**
 * The identities without the oldest of each type that has too many; of those of one time the smaller value goes. The
 * newest of a union are the newest of the newest of its parts, so this is right in every order of folds and writes.
 */
export function withoutOldest(identities: readonly HeldIdentity[], limits: IdentityLimits): Capped {
  // Nearly every write: nothing is counted for it.
  if (identities.length <= leastLimit(limits)) return { kept: identities, dropped: [] };
  const dropped = new Set<HeldIdentity>();
  for (const [type, kept] of new IdentityCounts(limits, identities).overfull()) {
    const own = identities.filter((identity) => identity.type === type);
    own.sort((left, right) => right.ts - left.ts || compareText(right.value, left.value));
    for (const identity of own.slice(kept)) dropped.add(identity);
  }
  const kept = identities.filter((identity) => !dropped.has(identity));
  return { kept: keptIfSame(identities, kept), dropped: [...dropped] };
}

function leastLimit({ types }: IdentityLimits): number {
  let least = MAX_PROFILE_IDENTITIES;
  for (const { max } of types) least = Math.min(least, max);
  return least;
}
