import { isObject, type Json, type JsonObject, objectIn } from '../../event/event.ts';
import { defined } from '../../primitives/defined.ts';
import { fromShortForm } from '../definition/definition.ts';
import { canonicalJson, isList } from '../json-values.ts';

export type JsonTypeName = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'object' | 'array';

/** Limits of JSON Schema on numbers, texts and lists that a client can check by itself. */
const BOUNDS = [
  'minimum',
  'exclusiveMinimum',
  'maximum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
] as const;
export type Bound = (typeof BOUNDS)[number];

/**
 * The schema of one value, as far as types of programming languages and lists of fields can express it. It never
 * refuses a value that the schema permits; `isPartial` states that the schema may refuse more.
 */
export interface TypeModel {
  /** Absent: any. */
  readonly types?: readonly JsonTypeName[];
  readonly description?: string;
  readonly format?: string;
  readonly pattern?: string;
  /** The closed set of values. */
  readonly values?: readonly Json[];
  readonly bounds: Readonly<Partial<Record<Bound, number>>>;
  /** The declared fields, sorted by name. */
  readonly fields: readonly FieldModel[];
  /** Other fields: their model; `false` where none are declared; absent where the schema says nothing of fields. */
  readonly rest?: TypeModel | false;
  readonly items?: TypeModel;
  readonly isPartial: boolean;
}

export interface FieldModel {
  readonly name: string;
  readonly required: boolean;
  readonly model: TypeModel;
}

const ANY: TypeModel = { bounds: {}, fields: [], isPartial: false };
const NOTHING: TypeModel = { ...ANY, types: [] };

/** Schemas read of one definition: references that lead to the same schema from many locations multiply it. */
const MAX_MODELS = 5_000;
const MAX_MODEL_DEPTH = 32;

/** The model of a valid `schema_definition`, in either form. */
export function typeModelOf(definition: JsonObject): TypeModel {
  const root = fromShortForm(definition);
  return new ModelReader(root).read(root, [], 0);
}

class ModelReader {
  readonly #root: JsonObject;
  #left = MAX_MODELS;

  constructor(root: JsonObject) {
    this.#root = root;
  }

  /** `within`: the references that are being followed; one of them again is a recursion, whose model is any. */
  read(schema: Json | undefined, within: readonly string[], depth: number): TypeModel {
    if (schema === false) return NOTHING;
    if (!isObject(schema)) return ANY;
    if (this.#left-- <= 0 || depth > MAX_MODEL_DEPTH) return { ...ANY, isPartial: true };
    const inner = (part: Json | undefined) => this.read(part, within, depth + 1);
    const models = [this.#ownModel(schema, inner)];
    if (typeof schema.$ref === 'string') models.push(this.#target(schema.$ref, within, depth));
    for (const part of listOf(schema.allOf)) models.push(inner(part));
    for (const keyword of ['anyOf', 'oneOf'] as const)
      if (isList(schema[keyword] ?? null)) models.push(anyOfModels(listOf(schema[keyword]).map(inner)));
    // Their fields are declared, whether or not their condition holds.
    for (const part of [schema.then, schema.else, ...Object.values(objectIn(schema.dependentSchemas))])
      if (part !== undefined) models.push(fieldsOnly(inner(part)));
    const model = models.reduce(allOfModels);
    return PARTIAL.some((keyword) => schema[keyword] !== undefined) ? { ...model, isPartial: true } : model;
  }

  #ownModel(schema: JsonObject, inner: (part: Json | undefined) => TypeModel): TypeModel {
    const types = typesIn(schema.type);
    const values = schema.const === undefined ? schema.enum : [schema.const];
    const required = new Set(listOf(schema.required));
    const named = Object.entries(objectIn(schema.properties));
    const rest = restOf(schema, inner);
    // Before the items: where a schema has more models than are read, its own fields are the more useful ones.
    const fields = named
      .map(([name, field]) => ({ name, required: required.has(name), model: inner(field) }))
      .sort(byName);
    const items = Array.isArray(schema.items) || schema.prefixItems !== undefined ? undefined : schema.items;
    return {
      ...defined({
        types,
        description: textIn(schema.description),
        format: textIn(schema.format),
        pattern: textIn(schema.pattern),
        values: values !== undefined && isList(values) ? values : undefined,
        rest,
        items: items === undefined ? undefined : inner(items),
      }),
      bounds: Object.fromEntries(
        BOUNDS.flatMap((name) => (typeof schema[name] === 'number' ? [[name, schema[name]]] : [])),
      ),
      fields,
      isPartial: [...required].some((name) => typeof name === 'string' && !isNamed(named, name)),
    };
  }

  #target(reference: string, within: readonly string[], depth: number): TypeModel {
    if (within.includes(reference)) return { ...ANY, isPartial: true };
    const target = targetOf(this.#root, reference);
    if (target === undefined) return { ...ANY, isPartial: true };
    return this.read(target, [...within, reference], depth + 1);
  }
}

/** Keywords that refuse values which the model permits. */
const PARTIAL = [
  ...['not', 'if', 'contains', 'propertyNames', 'dependencies', 'dependentRequired', 'dependentSchemas'],
  ...['minProperties', 'maxProperties', 'uniqueItems', 'prefixItems', 'additionalItems', 'unevaluatedItems'],
  ...['$dynamicRef'],
] as const;

function isNamed(fields: readonly [string, Json][], name: string): boolean {
  return fields.some(([known]) => known === name);
}

function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  if (a.name === b.name) return 0;
  return a.name < b.name ? -1 : 1;
}

function restOf(
  schema: JsonObject,
  inner: (part: Json | undefined) => TypeModel,
): TypeModel | false | undefined {
  if (Object.keys(objectIn(schema.patternProperties)).length > 0) return { ...ANY, isPartial: true };
  const others = schema.additionalProperties ?? schema.unevaluatedProperties;
  if (others !== undefined && others !== false) return inner(others);
  return others === false || schema.properties !== undefined ? false : undefined;
}

const TYPE_NAMES: ReadonlySet<unknown> = new Set<JsonTypeName>([
  'null',
  'boolean',
  'integer',
  'number',
  'string',
  'object',
  'array',
]);

function typesIn(type: Json | undefined): readonly JsonTypeName[] | undefined {
  if (type === undefined) return undefined;
  const names = isList(type) ? type : [type];
  return names.filter((name): name is JsonTypeName => TYPE_NAMES.has(name));
}

/** The schema that a local reference names; undefined for any other reference. */
function targetOf(root: JsonObject, reference: string): Json | undefined {
  if (reference !== '#' && !reference.startsWith('#/')) return undefined;
  let target: Json | undefined = root;
  for (const part of reference.split('/').slice(1)) {
    const name = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof target !== 'object' || target === null || !Object.hasOwn(target, name)) return undefined;
    target = (target as JsonObject)[name];
  }
  return target;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The model of what both permit. */
function allOfModels(one: TypeModel, other: TypeModel): TypeModel {
  const types = bothTypes(one.types, other.types);
  const values = bothValues(one.values, other.values);
  const rest = bothRests(one.rest, other.rest);
  const items = one.items && other.items ? allOfModels(one.items, other.items) : (one.items ?? other.items);
  const hidden = [one.format, one.pattern].some(
    (own, at) => own !== undefined && ([other.format, other.pattern][at] ?? own) !== own,
  );
  return {
    ...other,
    ...one,
    ...defined({ types, values, rest, items }),
    bounds: tighter(one.bounds, other.bounds),
    fields: mergeFields(one.fields, other.fields, { both: allOfModels, alone: (field) => field }),
    isPartial: one.isPartial || other.isPartial || hidden,
  };
}

/** The model of what any of them permits. */
function anyOfModels(models: readonly TypeModel[]): TypeModel {
  const [first = ANY, ...others] = models;
  const merged = others.reduce((one, other): TypeModel => {
    const types = one.types && other.types && [...new Set([...one.types, ...other.types])];
    const values = one.values && other.values && [...one.values, ...other.values];
    const format = one.format === other.format ? one.format : undefined;
    const rests = [one.rest, other.rest].filter((rest) => rest !== undefined);
    const rest = rests.find((open) => open !== false) ?? rests[0];
    const items = one.items && other.items && anyOfModels([one.items, other.items]);
    return {
      ...defined({ types, values, format, items, rest: rest && ANY }),
      bounds: {},
      fields: mergeFields(one.fields, other.fields, ALTERNATIVES),
      isPartial: true,
    };
  }, first);
  return others.length === 0 ? first : { ...merged, isPartial: true };
}

/** The fields that a schema declares which does not always apply. */
function fieldsOnly({ fields, rest }: TypeModel): TypeModel {
  return {
    ...ANY,
    fields: fields.map(({ name }) => ({ name, required: false, model: ANY })),
    ...defined({ rest: rest && ANY }),
    isPartial: true,
  };
}

/** How the fields of two models become those of one. */
interface FieldMerge {
  both(one: TypeModel, other: TypeModel): TypeModel;
  /** A field that only one of them declares. */
  alone(field: FieldModel): FieldModel;
  /** Required only where both require it. Default: where one does. */
  readonly isLenient?: true;
}

/** A field that one alternative declares may have any value under another. */
const ALTERNATIVES: FieldMerge = {
  both: (one, other) => anyOfModels([one, other]),
  alone: ({ name, model: { description } }) => ({
    name,
    required: false,
    model: { ...ANY, ...(description === undefined ? {} : { description }), isPartial: true },
  }),
  isLenient: true,
};

function mergeFields(
  ours: readonly FieldModel[],
  theirs: readonly FieldModel[],
  { both, alone, isLenient }: FieldMerge,
): readonly FieldModel[] {
  const others = new Map(theirs.map((field) => [field.name, field]));
  const merged = ours.map((field) => {
    const other = others.get(field.name);
    others.delete(field.name);
    if (other === undefined) return alone(field);
    const required = isLenient ? field.required && other.required : field.required || other.required;
    return { name: field.name, required, model: both(field.model, other.model) };
  });
  return [...merged, ...[...others.values()].map(alone)].sort(byName);
}

function bothTypes(
  one: readonly JsonTypeName[] | undefined,
  other: readonly JsonTypeName[] | undefined,
): readonly JsonTypeName[] | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const permits = (types: readonly JsonTypeName[], name: JsonTypeName) =>
    types.includes(name) || (name === 'integer' && types.includes('number'));
  return [...new Set([...one, ...other])].filter((name) => permits(one, name) && permits(other, name));
}

function bothValues(
  one: readonly Json[] | undefined,
  other: readonly Json[] | undefined,
): readonly Json[] | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const known = new Set(other.map(canonicalJson));
  return one.filter((value) => known.has(canonicalJson(value)));
}

/** A field that one of them declares is declared. */
function bothRests(one: TypeModel['rest'], other: TypeModel['rest']): TypeModel['rest'] {
  if (one === undefined || other === undefined) return one ?? other;
  if (one === false || other === false) return one || other;
  return allOfModels(one, other);
}

function tighter(one: TypeModel['bounds'], other: TypeModel['bounds']): TypeModel['bounds'] {
  const bounds: Partial<Record<Bound, number>> = { ...one };
  for (const name of BOUNDS) {
    const [ours, theirs] = [one[name], other[name]];
    if (theirs === undefined) continue;
    if (ours === undefined) bounds[name] = theirs;
    else bounds[name] = /min/i.test(name) ? Math.max(ours, theirs) : Math.min(ours, theirs);
  }
  return bounds;
}

function textIn(value: Json | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function listOf(value: Json | undefined): readonly Json[] {
  return value !== undefined && isList(value) ? value : [];
}
