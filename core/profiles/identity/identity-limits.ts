import { type HeldIdentity, type Identity, MAX_PROFILE_IDENTITIES } from '../profile.ts';
import { compareText, keptIfSame } from '../registers.ts';
import { namespaceOf } from './identity.ts';

/*
 * Bounds on the identities of a profile. Of a type that drops its oldest, a profile keeps the newest, so a person
 * with a new device every day stays known; any other identity above a bound is refused.
 *
 * - All types that are not strong together: `MAX_PROFILE_IDENTITIES`. The oldest `anonymous_id`s make room for
 *   others.
 * - Strong types have `STRONG_ROOM` more, for them alone.
 * - Single types: the limits of the organization.
 */

export interface TypeLimit {
  readonly type: string;
  readonly max: number;
  /** True: the oldest identity is dropped for a new one. False: the new one is refused. */
  readonly drop_oldest: boolean;
}

/** The limits of an organization. */
export interface IdentityLimits {
  readonly types: readonly TypeLimit[];
  /** Number of different `user_id`s that one identity may link. */
  readonly user_ids: number;
}

/** The identity type that makes a profile a person's. */
export const PERSON = 'user_id';
/** The type whose oldest identities are dropped where all types together reach their bound. */
export const DEVICE = 'anonymous_id';

/** Namespaces that identify a person rather than a device or browser. */
const STRONG: ReadonlySet<string> = new Set([PERSON, 'email', 'cellphone', 'phone']);
/** Room for strong identities in a profile that is full of others. */
export const STRONG_ROOM = 100;

export const DEFAULT_LIMITS: IdentityLimits = {
  types: [{ type: DEVICE, max: 300, drop_oldest: true }],
  user_ids: 100,
};

export function isStrongType(type: string): boolean {
  return STRONG.has(type) || STRONG.has(namespaceOf(type));
}

/** The limit of a type; undefined without one. */
export function limitOf({ types }: IdentityLimits, type: string): TypeLimit | undefined {
  return types.find((limit) => limit.type === type);
}

/** Counts identities by type, of one profile or of several that are about to merge. */
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
   * Whether these fit in too, after dropping the oldest of some types. A type that only one side has always fits:
   * lowering a limit splits no profile.
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

  /**
   * How many identities of a type are kept. More identities of other types never raise it, so merges in any order
   * keep the same.
   */
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

  /** Types of which the oldest are dropped. */
  *overfull(): Generator<readonly [type: string, kept: number]> {
    for (const [type, count] of this.#byType) {
      const kept = this.kept(type);
      if (kept < count) yield [type, kept];
    }
  }

  #of(type: string): number {
    return this.#byType.get(type) ?? 0;
  }

  /** Counts without the type that makes room. */
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

/** Whether there are more identities than any profile may have. */
export function isTooMany(identities: readonly Identity[]): boolean {
  if (identities.length <= MAX_PROFILE_IDENTITIES) return false;
  const weak = identities.filter(({ type }) => !isStrongType(type)).length;
  return weak > MAX_PROFILE_IDENTITIES || identities.length > MAX_PROFILE_IDENTITIES + STRONG_ROOM;
}

export interface KeptIdentities {
  /** The given list itself where all are kept. */
  readonly kept: readonly HeldIdentity[];
  readonly dropped: readonly Identity[];
}

/**
 * Drops the oldest identities of each type above its bound; of equal times the smaller value. The newest of a union
 * are the newest of the newest of its parts, so the result does not depend on the order of merges and writes.
 */
export function withoutOldest(identities: readonly HeldIdentity[], limits: IdentityLimits): KeptIdentities {
  // The common case counts nothing.
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
