import {
  contractSubject,
  type EventType,
  type FieldModel,
  type Json,
  type PlanContract,
  type TypeModel,
  typeModelOf,
} from '@tributary/core';
import { wordsOf } from './names.ts';

/** The contracts of a plan, as code is generated from them. */
export interface GeneratedPlan {
  readonly name: string;
  readonly contracts: readonly GeneratedContract[];
}

/** A contract. Version 0: not known, as where the plan comes from another product. */
export type GeneratedContract = Pick<
  PlanContract,
  'event_type' | 'event_name' | 'description' | 'schema_definition' | 'version'
>;

/** One function of a generated client. */
export interface GeneratedCall {
  readonly type: EventType;
  /** Undefined where the caller names the event: a contract for any name. */
  readonly event: string | undefined;
  /** `properties` or `traits`. */
  readonly subject: 'properties' | 'traits';
  /** The words of its identifier; the first is the type, so it is never a reserved word. */
  readonly words: readonly string[];
  readonly model: TypeModel;
  /** Lines of its description. */
  readonly text: readonly string[];
  /** For messages, e.g. `track "Order Placed"`. */
  readonly title: string;
}

export function callsOf({ contracts }: GeneratedPlan): readonly GeneratedCall[] {
  return contracts.map(({ event_type: type, event_name, description, schema_definition, version }) => {
    const hasName = type === 'track' || type === 'page';
    const title = event_name === '' ? type : `${type} ${JSON.stringify(event_name)}`;
    const model = { ...typeModelOf(schema_definition), types: ['object'] as const };
    return {
      type,
      event: hasName && event_name === '' ? undefined : event_name,
      subject: contractSubject(type),
      words: [type, ...wordsOf(event_name)],
      model,
      text: [
        ...(description === null || description === '' ? [] : [description]),
        `${title}${version === 0 ? '' : `, version ${version} of its contract`}.`,
        ...(model.isPartial ? ['The contract has conditions that are checked by the server alone.'] : []),
      ],
      title,
    };
  });
}

/** The types of a value; a closed set implies its own, fields an object, items a list. Undefined: any. */
export function typesOf({ types, values, fields, items }: TypeModel): TypeModel['types'] {
  if (types !== undefined) return types;
  if (values !== undefined) return [...new Set(values.map(typeOf))];
  if (fields.length > 0) return ['object'];
  return items === undefined ? undefined : ['array'];
}

function typeOf(value: Json): NonNullable<TypeModel['types']>[number] {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  if (typeof value === 'object') return 'object';
  return typeof value === 'string' ? 'string' : 'boolean';
}

const BOUND_TEXTS: Readonly<Record<keyof TypeModel['bounds'], (limit: number) => string>> = {
  minimum: (limit) => `at least ${limit}`,
  exclusiveMinimum: (limit) => `above ${limit}`,
  maximum: (limit) => `at most ${limit}`,
  exclusiveMaximum: (limit) => `below ${limit}`,
  multipleOf: (limit) => `a multiple of ${limit}`,
  minLength: (limit) => `length at least ${limit}`,
  maxLength: (limit) => `length at most ${limit}`,
  minItems: (limit) => `items at least ${limit}`,
  maxItems: (limit) => `items at most ${limit}`,
};

/** Lines about a field: its description, and what its type does not say. */
export function textOfField({ name, required, model }: FieldModel, withName: boolean): readonly string[] {
  const bounds = Object.entries(model.bounds).map(([bound, limit]) =>
    BOUND_TEXTS[bound as keyof typeof BOUND_TEXTS](limit),
  );
  const facts = [
    required ? 'Required' : 'Optional',
    ...(model.format === undefined ? [] : [`format ${model.format}`]),
    ...bounds,
    ...(model.pattern === undefined ? [] : [`by the pattern ${model.pattern}`]),
  ];
  return [
    ...(withName ? [JSON.stringify(name)] : []),
    ...(model.description === undefined || model.description === '' ? [] : [model.description]),
    `${facts.join(', ')}.`,
  ];
}

/** Lines of a comment: without characters that end one, are invisible or turn the direction of what follows. */
export function commentLines(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) =>
    text
      .split(/\r\n|[\n\r\u0085\u2028\u2029]/)
      .map((line) => line.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, ' ').trimEnd()),
  );
}

/** Whether a value of this model has a type with named fields. */
export function isNamedObject(model: TypeModel): boolean {
  return (typesOf(model)?.includes('object') ?? false) && model.fields.length > 0;
}
