import { isDeepStrictEqual } from 'node:util';
import type { Json, JsonObject } from '../event/event.ts';

/**
 * A setting that decides which party receives the secrets stored beside it, and how safely they travel. A connector
 * declares all of its settings that do.
 */
export interface ExposingSetting {
  readonly setting: string;
  /**
   * All its values, the safest first: only a change to a later one exposes the secrets. Absent: every other value may
   * stand for another party.
   */
  readonly safestFirst?: readonly Json[];
}

/** Settings of which every other value may send the secrets to another party. */
export function namesParty(...settings: readonly string[]): readonly ExposingSetting[] {
  return settings.map((setting) => ({ setting }));
}

/** A setting that decides how safely the secrets travel. */
export function protects(setting: string, ...safestFirst: readonly Json[]): ExposingSetting {
  return { setting, safestFirst };
}

/** One change of settings after which a stored secret goes to another party, or in a less safe way. */
export interface Exposure {
  readonly setting: string;
  readonly change: 'another' | 'weaker';
}

/**
 * The changes between two versions of settings that expose stored secrets, in the order in which the connector declares
 * them. A setting that is absent has the default of the schema. No sequence of changes without an exposure leads to
 * settings that would have been one in a single step.
 */
export function exposuresOf(
  before: JsonObject,
  after: JsonObject,
  description: { readonly exposing: readonly ExposingSetting[]; readonly settingsSchema: JsonObject },
): readonly Exposure[] {
  const { properties } = description.settingsSchema as {
    readonly properties?: Readonly<Record<string, JsonObject>>;
  };
  const valueIn = (settings: JsonObject, name: string): Json | undefined =>
    settings[name] ?? properties?.[name]?.default;
  return description.exposing.flatMap(({ setting, safestFirst }): Exposure[] => {
    const [was, is] = [valueIn(before, setting), valueIn(after, setting)];
    if (isDeepStrictEqual(was, is)) return [];
    const [rankBefore, rankAfter] = [was, is].map((value) => rankOf(value, safestFirst));
    if (rankBefore === undefined || rankAfter === undefined) return [{ setting, change: 'another' }];
    return rankAfter > rankBefore ? [{ setting, change: 'weaker' }] : [];
  });
}

/** Undefined for a value that the order does not know. */
function rankOf(value: Json | undefined, safestFirst: readonly Json[] = []): number | undefined {
  const rank = safestFirst.findIndex((known) => isDeepStrictEqual(known, value));
  return rank === -1 ? undefined : rank;
}
