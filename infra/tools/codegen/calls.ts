import {
  contractSubject,
  type EventType,
  type FieldModel,
  hasName,
  type Json,
  type PlanContract,
  type TypeModel,
  typeModelOf,
} from '@tributary/core';

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
  readonly type: Exclude<EventType, 'alias'>;
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

/** Not of contracts for aliases: the SDKs' `alias` takes no traits. */
export function callsOf({ contracts }: GeneratedPlan): readonly GeneratedCall[] {
  return contracts.flatMap(({ event_type: type, event_name, description, schema_definition, version }) => {
    if (type === 'alias') return [];
    const title = event_name === '' ? type : `${type} ${JSON.stringify(event_name)}`;
    const model = { ...typeModelOf(schema_definition), types: ['object'] as const };
    return {
      type,
      event: hasName(type) && event_name === '' ? undefined : event_name,
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

/*
 * Identifiers from names of events and fields, which may hold any characters. Only ASCII letters and digits get into an
 * identifier, so no name can end one and begin something else.
 */

/** The words of a name. Characters beyond ASCII are words of their own, by their code point. */
export function wordsOf(name: string): readonly string[] {
  return [...name]
    .map((character) => {
      if (/[A-Za-z0-9]/.test(character)) return character;
      const code = character.codePointAt(0) ?? 0;
      return code < 0x80 || /[\p{Z}\p{C}\p{P}]/u.test(character)
        ? ' '
        : ` U${code.toString(16).toUpperCase()} `;
    })
    .join('')
    .split(' ')
    .filter((word) => word !== '');
}

/** Characters of an identifier at most; longer names are cut, and told apart by a number. */
const MAX_IDENTIFIER = 80;

export function pascalCase(words: readonly string[]): string {
  const joined = words.map((word) => (word[0] ?? '').toUpperCase() + word.slice(1)).join('');
  return joined.slice(0, MAX_IDENTIFIER);
}

export function camelCase(words: readonly string[]): string {
  const pascal = pascalCase(words);
  return (pascal[0] ?? '').toLowerCase() + pascal.slice(1);
}

export function snakeCase(words: readonly string[]): string {
  return words
    .flatMap((word) => word.replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2').split(' '))
    .map((word) => word.toLowerCase())
    .join('_')
    .slice(0, MAX_IDENTIFIER);
}

/** Gives each identifier once: a second one of the same name has a number. */
export class Names {
  readonly #taken: Set<string>;

  constructor(reserved: readonly string[] = []) {
    this.#taken = new Set(reserved);
  }

  take(wanted: string): string {
    let name = wanted;
    for (let number = 2; this.#taken.has(name); number++)
      name = `${wanted}${/\d$/.test(wanted) ? '_' : ''}${number}`;
    this.#taken.add(name);
    return name;
  }
}

/**
 * The checks of a value by a generated client before it sends, in a form that both runtimes read. They are stricter than
 * the contract in two things: fields that are not declared are refused, and where fields or items are declared the value
 * has to be an object or a list.
 */
export interface Rule {
  readonly types?: readonly string[];
  readonly values?: readonly (string | number | boolean | null)[];
  readonly format?: string;
  readonly bounds?: Readonly<Record<string, number>>;
  readonly fields?: readonly { readonly name: string; readonly required: boolean; readonly rule: Rule }[];
  /** The rule of other fields; `false`: there are none. Absent: any. */
  readonly rest?: Rule | false;
  readonly items?: Rule;
}

/** The members of a rule, in the order of the forms, each as its form writes it. */
export function membersOf(
  rule: Rule,
  forms: { readonly [Name in keyof Rule]-?: (value: NonNullable<Rule[Name]>) => string },
): string {
  const written = Object.entries(forms).flatMap(([name, form]) => {
    const value = rule[name as keyof Rule];
    return value === undefined ? [] : [(form as (value: unknown) => string)(value)];
  });
  return written.join(', ');
}

/** Formats that both runtimes check. Others, and patterns, are checked by the server. */
const FORMATS: ReadonlySet<string> = new Set([
  'date-time',
  'date',
  'email',
  'uuid',
  'ipv4',
  'ipv6',
  'uri',
  'url',
]);

export function ruleOf(model: TypeModel): Rule {
  const types = typesOf(model);
  const isObject = types === undefined || types.includes('object');
  const bounds = Object.entries(model.bounds).filter(([name]) => name !== 'multipleOf');
  return {
    ...(types === undefined ? {} : { types }),
    ...(model.values?.every(isScalar) ? { values: model.values.filter(isScalar) } : {}),
    ...(model.format !== undefined && FORMATS.has(model.format) ? { format: model.format } : {}),
    ...(bounds.length === 0 ? {} : { bounds: Object.fromEntries(bounds) }),
    ...(isObject && model.fields.length > 0
      ? {
          fields: model.fields.map(({ name, required, model: of }) => ({ name, required, rule: ruleOf(of) })),
        }
      : {}),
    ...(isObject && model.rest !== undefined
      ? { rest: model.rest === false ? false : ruleOf(model.rest) }
      : {}),
    ...(model.items === undefined ? {} : { items: ruleOf(model.items) }),
  };
}

function isScalar(value: Json): value is string | number | boolean | null {
  return value === null || typeof value !== 'object';
}

/** A literal of Go and Python in printable ASCII. */
export function asciiLiteral(value: string): string {
  const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0');
  let escaped = '';
  for (const character of value) {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"' || character === '\\') escaped += `\\${character}`;
    else if (code >= 0x20 && code < 0x7f) escaped += character;
    else escaped += code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
  }
  return `"${escaped}"`;
}
