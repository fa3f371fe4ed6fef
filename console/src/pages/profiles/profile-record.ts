import type { Schemas } from '../../api/client.ts';

export type ProfileRecord = Schemas['ProfileRecord'];

/** An identity of a profile, or of a search: an empty type stands for any usual type. */
export interface Identity {
  readonly type: string;
  readonly value: string;
}

export interface HeldIdentity extends Identity {
  /** Time of the last write, ISO 8601. */
  readonly at: string | null;
}

export interface Attribute {
  readonly name: string;
  readonly value: unknown;
}

/** Attributes that were written below one name. */
export interface Category {
  readonly name: string;
  /** Time of the newest write of its attributes, ISO 8601. The API has no time of a single attribute. */
  readonly at: string | null;
  readonly origin: string;
  readonly attributes: readonly Attribute[];
  /** Set where the category is one value instead of attributes. */
  readonly value?: unknown;
}

/** A consent or a preference. */
export interface NamedValue {
  readonly name: string;
  readonly value: string;
  readonly at: string | null;
  /** The id of the client key or account that wrote it; only preferences have it. */
  readonly writtenBy?: string;
}

/** Types that the sources of events and the libraries use; anything else may be written by the profile API. */
export const USUAL_TYPES = ['email', 'user_id', 'anonymous_id', 'cellphone', 'phone'] as const;

const UCID = 'ucid';
const HASHED_EMAIL = 'email_sha256_lowercase';
const TIME = '_ts';
const LINKED = 'linkedUcid';
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const SHA256 = /^[0-9a-f]{64}$/i;

/** The identities to search for: without a type, every usual type that the value can have. */
export function searchOf({ type, value }: Identity): Record<string, string[]> {
  if (type !== '') return { [type]: [value] };
  const types: string[] = [...USUAL_TYPES];
  if (UUID.test(value)) types.push(UCID);
  if (SHA256.test(value)) types.push(HASHED_EMAIL);
  return Object.fromEntries(types.map((each) => [each, [value]]));
}

export function categoriesOf({ profile }: ProfileRecord): readonly Category[] {
  return Object.entries(profile)
    .map(([name, content]) => {
      const origin = originOf(name);
      if (!isObject(content)) return { name, at: null, origin, attributes: [], value: content };
      const { [TIME]: time, ...attributes } = content;
      return {
        name,
        at: timeOf(time),
        origin,
        attributes: Object.entries(attributes)
          .map(([attribute, value]) => ({ name: attribute, value }))
          .sort(byName),
      };
    })
    .sort(byName);
}

/** The source of the attributes of a category. Callers of the profile API may write any category, too. */
function originOf(category: string): string {
  if (category === 'traits') return 'identify events';
  if (category === 'groups') return 'group events';
  return 'profile API';
}

export function identitiesOf({ ids }: ProfileRecord): readonly HeldIdentity[] {
  return Object.entries(ids)
    .flatMap(([namespace, items]) => (namespace === LINKED || !Array.isArray(items) ? [] : items))
    .flatMap((item: unknown) => {
      if (!isObject(item)) return [];
      const { [TIME]: time, ...values } = item;
      return Object.entries(values).flatMap(([type, value]) =>
        typeof value === 'string' ? [{ type, value, at: timeOf(time) }] : [],
      );
    });
}

/** The ucids of the profiles that were merged into this one. */
export function linkedOf({ ids }: ProfileRecord): readonly string[] {
  const linked: unknown = ids[LINKED];
  return Array.isArray(linked) ? linked.filter((ucid) => typeof ucid === 'string') : [];
}

export function namedValuesOf(values: Readonly<Record<string, unknown>>): readonly NamedValue[] {
  return Object.entries(values)
    .map(([name, stored]) => {
      if (!isObject(stored)) return { name, value: textOf(stored), at: null };
      const { value, datasourceId, [TIME]: time } = stored;
      const written = { name, value: textOf(value), at: timeOf(time) };
      return typeof datasourceId === 'string' ? { ...written, writtenBy: datasourceId } : written;
    })
    .sort(byName);
}

/** The number of identities of each type: `2 email, 1 user_id`. */
export function countsByType(identities: readonly Identity[]): string {
  const counts = Map.groupBy(identities, ({ type }) => type);
  return [...counts].map(([type, of]) => `${of.length} ${type}`).join(', ');
}

/** Whether a typed text names the profile: by the searched value, the ucid, or an identity. */
export function namesProfile(typed: string, record: ProfileRecord, looked: Identity): boolean {
  const text = typed.trim();
  return (
    text !== '' &&
    [looked.value, record.ucid, ...identitiesOf(record).map(({ value }) => value)].includes(text)
  );
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The time of a record, which is a text of ms since the epoch. */
function timeOf(ts: unknown): string | null {
  const time = new Date(typeof ts === 'string' ? Number(ts) : Number.NaN);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

function byName(left: { readonly name: string }, right: { readonly name: string }): number {
  return left.name.localeCompare(right.name);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
