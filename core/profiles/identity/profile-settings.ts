import { hash } from 'node:crypto';
import { compilePattern, type Pattern, readPattern } from '../../contracts/definition/patterns.ts';
import { WorkMeter } from '../../contracts/work.ts';
import { getOrMake } from '../../primitives/get-or-make.ts';
import type { Identity } from '../profile.ts';
import { HASHED_EMAIL, type IdentityReading, namespaceOf, normaliseIdentity, RAW_EMAIL } from './identity.ts';
import { DEFAULT_LIMITS, type IdentityLimits, type TypeLimit } from './identity-limits.ts';
import { digestsOf } from './placeholders.ts';

/** Settings of an organization for its profiles. */
export interface ProfileSettings {
  /** ISO 3166 alpha-2: the country of telephone numbers without a country code. Null: such numbers are not parsed. */
  readonly default_country: string | null;
  readonly blocked_identities: readonly BlockedIdentity[];
  /** Limits by type; for types without one, those of `DEFAULT_LIMITS`. */
  readonly identity_limits: readonly TypeLimit[];
  /** Number of different `user_id`s that one identity may link. Null: that of `DEFAULT_LIMITS`. */
  readonly max_user_ids_per_identity: number | null;
}

export const NO_PROFILE_SETTINGS: ProfileSettings = {
  default_country: null,
  blocked_identities: [],
  identity_limits: [],
  max_user_ids_per_identity: null,
};

/** The settings in the form that profile writes need; absent parts mean defaults. */
interface ProfileRules {
  readonly isBlocked?: IsBlocked;
  readonly limits?: IdentityLimits;
}

const NO_RULES: ProfileRules = {};
const rules = new WeakMap<ProfileSettings, ProfileRules>();

/** Compiled once for each version of the settings: a change creates a new object in the catalog. */
export function profileRulesOf(settings: ProfileSettings | undefined): ProfileRules {
  if (settings === undefined) return NO_RULES;
  return getOrMake(rules, settings, () => ({ ...blockingOf(settings), ...limitsOf(settings) }));
}

/** The part of the settings that affects reading identities. */
export function identityReadingOf(settings: ProfileSettings | undefined): IdentityReading {
  const country = settings?.default_country;
  return country == null ? {} : { defaultCountry: country };
}

/** The limits of all types with a limit, defaults included. */
export function typeLimitsOf({ identity_limits }: ProfileSettings): readonly TypeLimit[] {
  const own = new Set(identity_limits.map(({ type }) => type));
  return [...identity_limits, ...DEFAULT_LIMITS.types.filter(({ type }) => !own.has(type))];
}

function blockingOf(settings: ProfileSettings): Pick<ProfileRules, 'isBlocked'> {
  const { blocked_identities } = settings;
  if (blocked_identities.length === 0) return {};
  const read = readBlockList(blocked_identities, identityReadingOf(settings));
  // Lists are checked before they are stored.
  if ('faults' in read)
    throw new TypeError('the catalog holds a list of blocked identities that cannot be used');
  return { isBlocked: read.isBlocked };
}

function limitsOf(settings: ProfileSettings): Pick<ProfileRules, 'limits'> {
  const { identity_limits, max_user_ids_per_identity: user_ids } = settings;
  if (identity_limits.length === 0 && user_ids === null) return {};
  return { limits: { types: typeLimitsOf(settings), user_ids: user_ids ?? DEFAULT_LIMITS.user_ids } };
}

/**
 * An entry of an organization's block list: values that identify nobody there, in addition to `placeholders.ts`.
 * Exactly one of `value` and `pattern` is set.
 */
export interface BlockedIdentity {
  /** Null: all types. */
  readonly type: string | null;
  /** The whole value, in any case of letters. Its hashes are blocked for hashed types. */
  readonly value: string | null;
  /** A regular expression as in contracts, matched anywhere in the value. */
  readonly pattern: string | null;
}

export const MAX_BLOCKED_IDENTITIES = 500;
export const MAX_BLOCKED_PATTERNS = 50;
export const MAX_BLOCKED_PATTERN_LENGTH = 200;
/**
 * Bound on the instructions of all patterns together: the longest value then takes the slowest patterns a few ms, and
 * typical patterns less than a microsecond each.
 */
const MAX_PATTERN_SIZE = 1_000;

/** Whether the normalised identity is blocked. */
export type IsBlocked = (identity: Identity) => boolean;

/** `path` is a JSON pointer relative to the list. */
type ReadBlockList =
  | { readonly isBlocked: IsBlocked }
  | { readonly faults: readonly { readonly path: string; readonly message: string }[] };

/** Compiles a list, or returns its faults. Values are read like those of identities. */
export function readBlockList(
  blocked: readonly BlockedIdentity[],
  reading: IdentityReading = {},
): ReadBlockList {
  const list = new BlockList(reading);
  const faults: { path: string; message: string }[] = [];
  let size = 0;
  for (const [at, { type, value, pattern: source }] of blocked.entries()) {
    const fault = (name: string, message: string) => faults.push({ path: `/${at}${name}`, message });
    if (type !== null && !isTypeName(type)) fault('/type', 'is no name of an identifier type');
    if ((value === null) === (source === null)) fault('', 'must have either a value or a pattern');
    if (value !== null) list.addValue(type, value);
    if (value !== null || source === null) continue;
    const read = readPattern(source, compile);
    if ('fault' in read) {
      fault('/pattern', read.fault);
      continue;
    }
    size += read.pattern.size;
    if (size > MAX_PATTERN_SIZE) fault('/pattern', 'is too large, together with the patterns before it');
    if (read.pattern.test('')) fault('/pattern', 'must not match everything: it matches an empty text');
    list.addPattern(type, read.pattern);
  }
  return faults.length > 0 ? { faults } : { isBlocked: (identity) => list.has(identity) };
}

/** Types whose values are normalised to another spelling; both types of telephone number share theirs. */
const SPELLED_TYPES = [RAW_EMAIL, 'phone'];

class BlockList {
  /** Lower-case values by type; '' holds those of all types. */
  readonly #values = new Map<string, Set<string>>();
  /** Hexadecimal digests of the values by namespace. */
  readonly #digests = new Map<string, Set<string>>();
  readonly #patterns: { readonly type: string | null; readonly pattern: Pattern }[] = [];

  readonly #reading: IdentityReading;

  constructor(reading: IdentityReading) {
    this.#reading = reading;
  }

  addValue(type: string | null, value: string): void {
    const trimmed = value.trim();
    const forms = new Set([trimmed, trimmed.toLowerCase(), trimmed.toUpperCase()]);
    for (const of of type === null ? SPELLED_TYPES : [type]) {
      const normalised = normaliseIdentity(of, trimmed, this.#reading);
      if (normalised.kind === 'identity') forms.add(normalised.identity.value);
    }
    for (const form of forms) {
      addTo(this.#values, type ?? '', form.toLowerCase());
      for (const digest of digestsOf(form)) addTo(this.#digests, type ?? '', digest);
    }
  }

  addPattern(type: string | null, pattern: Pattern): void {
    this.#patterns.push({ type, pattern });
  }

  has({ type, value }: Identity): boolean {
    const lower = value.toLowerCase();
    if (isIn(this.#values, type, lower)) return true;
    const namespace = namespaceOf(type);
    if (namespace !== type && isIn(this.#digests, namespace, lower)) return true;
    if (type === RAW_EMAIL && this.#values.get(HASHED_EMAIL)?.has(hash('sha256', value)) === true)
      return true;
    return this.#patterns.some((one) => (one.type === null || one.type === type) && one.pattern.test(value));
  }
}

function addTo(map: Map<string, Set<string>>, key: string, value: string): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, new Set([value]));
  else known.add(value);
}

function isIn(map: ReadonlyMap<string, ReadonlySet<string>>, type: string, value: string): boolean {
  return map.get('')?.has(value) === true || map.get(type)?.has(value) === true;
}

/** Values are short, so the size of a pattern alone bounds its work. */
function compile(source: string): Pattern {
  const meter = new WorkMeter();
  meter.reset(Number.POSITIVE_INFINITY);
  return compilePattern(source, meter);
}

function isTypeName(type: string): boolean {
  return normaliseIdentity(type, 'a value that an identity of any type can have').kind === 'identity';
}
