import type { Json, JsonObject } from '../../event/event.ts';
import { below } from '../pointer.ts';
import { MAX_DISTINCT } from './text-profile.ts';
import type { JsonType, ValueProfile } from './value-profile.ts';

/** How sure is sure enough. */
export interface InferenceThresholds {
  /** A field is required that stands in at least this share of the objects that may hold it, above 0 to 1. */
  readonly requiredRatio: number;
  /** A text is one of a closed set that has at most this many members, 0 (never) to `MAX_DISTINCT`. */
  readonly enumMax: number;
}

export const MAX_ENUM = MAX_DISTINCT;
/** Texts that must have been seen, in all and for each of a set, before the set is taken for closed. */
const ENUM_SUPPORT = 20;
const ENUM_SUPPORT_EACH = 5;
/** Texts that must have been seen before a format that all have is taken for theirs. */
const FORMAT_SUPPORT = 5;

/** What was seen of one field. */
export interface InferredField {
  /** JSON pointer below `properties` or `traits`; `*` stands for any item of a list. */
  readonly path: string;
  /** How often it was there, */
  readonly seen: number;
  /** of the objects (for `*`: the lists' items) that could have held it. */
  readonly of: number;
  readonly required: boolean;
  /** How many values of each type. */
  readonly types: Readonly<Partial<Record<JsonType, number>>>;
  readonly format: string | null;
  /** The closed set it was taken for. */
  readonly enum: readonly string[] | null;
  readonly minimum: number | null;
  readonly maximum: number | null;
}

export interface InferredSchema {
  /** In the short form. It takes every value shown where `requiredRatio` is 1. */
  readonly schema: JsonObject;
  readonly fields: readonly InferredField[];
}

/** What a schema for these objects would be, with the figures behind it. */
export function inferSchema(objects: ValueProfile, thresholds: InferenceThresholds): InferredSchema {
  const fields: InferredField[] = [];
  return { schema: objectSchema(objects, '', thresholds, fields), fields };
}

function objectSchema(
  profile: ValueProfile,
  path: string,
  thresholds: InferenceThresholds,
  fields: InferredField[],
): JsonObject {
  const objects = profile.types.get('object') ?? 0;
  const names = [...profile.fields.keys()].sort();
  if (names.length === 0) return {};
  const properties = names.flatMap((name): [string, Json][] => {
    const field = profile.fields.get(name);
    if (field === undefined) return [];
    const required = field.seen / objects >= thresholds.requiredRatio;
    const schema = valueSchema(field, below(path, name), { of: objects, required }, thresholds, fields);
    return [[name, required ? { ...schema, required } : schema]];
  });
  return { properties: Object.fromEntries(properties) };
}

function valueSchema(
  profile: ValueProfile,
  path: string,
  { of, required }: { readonly of: number; readonly required: boolean },
  thresholds: InferenceThresholds,
  fields: InferredField[],
): JsonObject {
  const types = typesOf(profile);
  const closed = closedSetOf(profile, thresholds);
  const format = closed === undefined ? formatOf(profile) : undefined;
  fields.push({
    path,
    seen: profile.seen,
    of,
    required,
    types: Object.fromEntries(profile.types),
    format: format ?? null,
    enum: closed ?? null,
    minimum: Number.isFinite(profile.minimum) ? profile.minimum : null,
    maximum: Number.isFinite(profile.maximum) ? profile.maximum : null,
  });
  const [type = 'null', ...others] = types;
  return {
    type: others.length === 0 ? type : types,
    ...(format === undefined ? {} : { format }),
    ...(closed === undefined ? {} : { enum: types.includes('null') ? [...closed, null] : closed }),
    ...objectSchema(profile, path, thresholds, fields),
    ...itemsSchema(profile, path, thresholds, fields),
  };
}

function itemsSchema(
  { items }: ValueProfile,
  path: string,
  thresholds: InferenceThresholds,
  fields: InferredField[],
): JsonObject {
  if (items === undefined) return {};
  const all = { of: items.seen, required: false };
  return { items: valueSchema(items, `${path}/*`, all, thresholds, fields) };
}

/** Every integer is a number. */
function typesOf({ types }: ValueProfile): readonly JsonType[] {
  return [...types.keys()].filter((type) => type !== 'integer' || !types.has('number')).sort();
}

/** A set of one may be all there was so far; one beside other types is no set of texts. */
function closedSetOf(
  { types, texts }: ValueProfile,
  { enumMax }: InferenceThresholds,
): readonly string[] | undefined {
  const { distinct, seen } = texts;
  if (distinct === undefined || distinct.length < 2 || distinct.length > enumMax) return undefined;
  if (seen < Math.max(ENUM_SUPPORT, ENUM_SUPPORT_EACH * distinct.length)) return undefined;
  return [...types.keys()].every((type) => type === 'string' || type === 'null') ? distinct : undefined;
}

function formatOf({ texts }: ValueProfile): string | undefined {
  return texts.seen >= FORMAT_SUPPORT ? texts.format : undefined;
}
