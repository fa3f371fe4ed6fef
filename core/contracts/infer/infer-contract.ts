import type { Contract } from '../../catalog/entities.ts';
import {
  type CanonicalEvent,
  contractSubject,
  type EventType,
  type Json,
  type JsonObject,
} from '../../event/event.ts';
import { below } from '../json-values.ts';
import { type JsonType, MAX_DISTINCT, MAX_PATHS, ValueProfile } from './value-profile.ts';

/** A contract inferred from events, as its creation takes it. */
export interface ProposedContract
  extends Pick<Contract, 'name' | 'event_type' | 'event_name' | 'schema_definition'> {
  readonly description: string;
  readonly enforcement_mode: 'warn';
  readonly undeclared_fields: 'warn';
}

export interface InferredContract {
  /** Null where no event was added. */
  readonly contract: ProposedContract | null;
  readonly events: number;
  readonly fields: readonly InferredField[];
}

const MAX_NAME = 200;

/**
 * Infers a contract from events added one after the other. It keeps statistics of bounded size, not events. The same
 * events give the same contract in any order, unless they hold more than is remembered.
 */
export class ContractInference {
  readonly #eventType: EventType;
  readonly #eventName: string;
  readonly #subjects = new ValueProfile(0, { left: MAX_PATHS });
  #from = '';
  #to = '';

  constructor(eventType: EventType, eventName: string) {
    this.#eventType = eventType;
    this.#eventName = eventName;
  }

  /** Adds an event that the contract would apply to. */
  add(event: CanonicalEvent): void {
    const subject: Json = event[contractSubject(event.type)] ?? {};
    this.#subjects.add(subject);
    const { received_at: at } = event;
    if (this.#from === '' || at < this.#from) this.#from = at;
    if (at > this.#to) this.#to = at;
  }

  /** The contract warns and rejects nothing; its author may make it stricter. */
  infer(thresholds: InferenceThresholds): InferredContract {
    const events = this.#subjects.seen;
    if (events === 0) return { contract: null, events, fields: [] };
    const { schema, fields } = inferSchema(this.#subjects, thresholds);
    const contract: ProposedContract = {
      name: (this.#eventName || `Any ${this.#eventType}`).slice(0, MAX_NAME),
      event_type: this.#eventType,
      event_name: this.#eventName,
      description: `Inferred from ${events} ${events === 1 ? 'event' : 'events'} received from ${this.#from} to ${this.#to}.`,
      schema_definition: schema,
      enforcement_mode: 'warn',
      undeclared_fields: 'warn',
    };
    return { contract, events, fields };
  }
}

/** How often a field or text must occur for the schema to demand it. */
export interface InferenceThresholds {
  /** A field is required when at least this share of the objects that may hold it have it, above 0 to 1. */
  readonly requiredRatio: number;
  /** Texts are a closed set when they are at most this many distinct ones, 0 (never) to `MAX_DISTINCT`. */
  readonly enumMax: number;
}

export const MAX_ENUM = MAX_DISTINCT;
/** Texts that must have been seen, in all and of each kind, before a set is taken for closed. */
const ENUM_SUPPORT = 20;
const ENUM_SUPPORT_EACH = 5;
/** Texts that must have been seen before a format common to all is inferred. */
const FORMAT_SUPPORT = 5;

/** Statistics of one field. */
export interface InferredField {
  /** JSON pointer below `properties` or `traits`; `*` stands for any item of a list. */
  readonly path: string;
  /** Number of objects that had the field; for `*`, of items of lists. */
  readonly seen: number;
  /** Number of objects that could have had the field; for `*`, of items of lists. */
  readonly of: number;
  readonly required: boolean;
  /** How many values of each type. */
  readonly types: Readonly<Partial<Record<JsonType, number>>>;
  readonly format: string | null;
  /** The closed set of its texts. */
  readonly enum: readonly string[] | null;
  readonly minimum: number | null;
  readonly maximum: number | null;
}

interface InferredSchema {
  /** In the short form. Where `requiredRatio` is 1, every event added is valid. */
  readonly schema: JsonObject;
  readonly fields: readonly InferredField[];
}

/** The schema of these objects, with the statistics behind it. */
function inferSchema(objects: ValueProfile, thresholds: InferenceThresholds): InferredSchema {
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

/** A single text may be the only one so far, and texts beside other types are no closed set. */
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
