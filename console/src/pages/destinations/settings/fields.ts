export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json;
}

interface Described {
  readonly title: string;
  readonly description?: string;
  readonly required: boolean;
  /** Never returned by the API: a stored secret is masked, and kept unless a value is sent. */
  readonly secret: boolean;
  /** Set by the server: shown, but not sent. */
  readonly readOnly: boolean;
  readonly default?: Json;
  readonly example?: Json;
}

interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
}

interface Counted {
  readonly minItems: number;
  readonly maxItems?: number;
}

/** A form field for a JSON Schema. */
export type Field = Described &
  (
    | ({ readonly kind: 'text'; readonly lines: boolean } & Bounds)
    | ({ readonly kind: 'number'; readonly integer: boolean } & Bounds)
    | { readonly kind: 'boolean' }
    | { readonly kind: 'constant'; readonly value: Json }
    | { readonly kind: 'choice'; readonly options: readonly Json[] }
    | ({ readonly kind: 'choices'; readonly options: readonly string[] } & Counted)
    | ({ readonly kind: 'texts'; readonly pattern?: string } & Counted)
    /** An object of texts with names chosen by the person, such as request headers. */
    | { readonly kind: 'pairs' }
    | { readonly kind: 'group'; readonly fields: readonly NamedField[] }
    | ({ readonly kind: 'list'; readonly item: Field } & Counted)
    | { readonly kind: 'variants'; readonly variants: readonly Field[] }
    /** A schema that no other kind can express, edited as JSON. */
    | { readonly kind: 'json'; readonly type?: 'object' | 'array' }
  );

export type NamedField = Field & { readonly name: string };

type Schema = Readonly<Record<string, unknown>>;

interface FieldContext {
  readonly name: string;
  readonly required: boolean;
  readonly depth: number;
}

/** Below this depth a form is harder to read than its JSON. */
const MAX_DEPTH = 4;
/** A text that may be longer than this gets several lines. */
const LINES_FROM = 4_096;

/** The fields of a form for a JSON Schema of settings. */
export function fieldOf(schema: unknown): Field {
  return build(isSchema(schema) ? schema : {}, { name: '', required: true, depth: 0 });
}

function build(schema: Schema, context: FieldContext): Field {
  const shared = describe(schema, context);
  const variants = variantsOf(schema);
  if (variants !== undefined)
    return {
      ...shared,
      kind: 'variants',
      variants: variants.map((variant, index) =>
        build(withBase(schema, variant), { ...context, name: `Choice ${index + 1}`, required: true }),
      ),
    };
  if (schema.const !== undefined) return { ...shared, kind: 'constant', value: schema.const as Json };
  if (Array.isArray(schema.enum))
    return {
      ...shared,
      kind: 'choice',
      options: (schema.enum as Json[]).filter((option) => option !== null),
    };
  switch (typeOf(schema)) {
    case 'string':
      return { ...shared, kind: 'text', lines: isLong(schema), ...boundsOf(schema) };
    case 'number':
    case 'integer':
      return { ...shared, kind: 'number', integer: typeOf(schema) === 'integer', ...boundsOf(schema) };
    case 'boolean':
      return { ...shared, kind: 'boolean' };
    case 'array':
      return arrayOf(schema, shared, context);
    case 'object':
      return objectOf(schema, shared, context);
    default:
      return { ...shared, kind: 'json' };
  }
}

function objectOf(schema: Schema, shared: Described, context: FieldContext): Field {
  const { properties, additionalProperties: others } = schema;
  if (isSchema(properties) && Object.keys(properties).length > 0 && context.depth < MAX_DEPTH) {
    const required = Array.isArray(schema.required) ? schema.required : [];
    const fields = Object.entries(properties).map(([name, property]): NamedField => {
      const inside = { name, required: required.includes(name), depth: context.depth + 1 };
      return { name, ...build(isSchema(property) ? property : {}, inside) };
    });
    return { ...shared, kind: 'group', fields };
  }
  if (isSchema(others) && typeOf(others) === 'string' && others.enum === undefined)
    return { ...shared, kind: 'pairs' };
  return { ...shared, kind: 'json', type: 'object' };
}

function arrayOf(schema: Schema, shared: Described, context: FieldContext): Field {
  const { items } = schema;
  const counted = {
    minItems: numberIn(schema, 'minItems') ?? 0,
    ...(numberIn(schema, 'maxItems') === undefined
      ? {}
      : { maxItems: numberIn(schema, 'maxItems') as number }),
  };
  if (!isSchema(items) || context.depth >= MAX_DEPTH) return { ...shared, kind: 'json', type: 'array' };
  const item = build(items, { name: shared.title, required: true, depth: context.depth + 1 });
  if (item.kind === 'choice' && item.options.every((option) => typeof option === 'string'))
    return { ...shared, kind: 'choices', options: item.options as readonly string[], ...counted };
  if (item.kind === 'text' && !item.lines)
    return {
      ...shared,
      kind: 'texts',
      ...counted,
      ...(item.pattern === undefined ? {} : { pattern: item.pattern }),
    };
  if (item.kind === 'group' || item.kind === 'variants') return { ...shared, kind: 'list', item, ...counted };
  return { ...shared, kind: 'json', type: 'array' };
}

function describe(schema: Schema, { name, required }: FieldContext): Described {
  const text = (key: string) => (typeof schema[key] === 'string' ? (schema[key] as string) : undefined);
  const [example] = Array.isArray(schema.examples) ? schema.examples : [];
  return {
    title: text('title') ?? titleOf(name),
    ...(text('description') === undefined ? {} : { description: text('description') as string }),
    required,
    secret: schema.writeOnly === true,
    readOnly: schema.readOnly === true,
    ...(schema.default === undefined ? {} : { default: schema.default as Json }),
    ...(example === undefined ? {} : { example: example as Json }),
  };
}

/** `access_key_id`: "Access key id"; `apiKey`: "Api key". */
export function titleOf(name: string): string {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/[_-]+/g, ' ')
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The choices of `oneOf` or `anyOf`, without `null`; undefined where there are none. */
function variantsOf(schema: Schema): readonly Schema[] | undefined {
  const all = [schema.oneOf, schema.anyOf].find((value) => Array.isArray(value)) as unknown[] | undefined;
  const variants = (all ?? []).filter(isSchema).filter(({ type }) => type !== 'null');
  return variants.length === 0 ? undefined : variants;
}

/** A variant with the properties that stand beside the choice. */
function withBase(schema: Schema, variant: Schema): Schema {
  const { oneOf: _, anyOf: __, title: ___, description: ____, ...base } = schema;
  const properties = { ...asSchema(base.properties), ...asSchema(variant.properties) };
  const required = [...new Set([...asList(base.required), ...asList(variant.required)])];
  return {
    ...base,
    ...variant,
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
    ...(required.length === 0 ? {} : { required }),
  };
}

function boundsOf(schema: Schema): Bounds {
  const names = ['minimum', 'maximum', 'minLength', 'maxLength'] as const;
  const numbers = names.flatMap((name) => {
    const value = numberIn(schema, name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...Object.fromEntries(numbers),
    ...(typeof schema.pattern === 'string' ? { pattern: schema.pattern } : {}),
  };
}

/** The one type beside `null`; `object` where no type but properties are stated. */
function typeOf({ type, properties }: Schema): string | undefined {
  if (Array.isArray(type)) {
    const types = type.filter((one) => one !== 'null');
    return types.length === 1 ? String(types[0]) : undefined;
  }
  if (typeof type === 'string') return type;
  return properties === undefined ? undefined : 'object';
}

function isLong(schema: Schema): boolean {
  return schema.writeOnly !== true && (numberIn(schema, 'maxLength') ?? 0) > LINES_FROM;
}

function numberIn(schema: Schema, name: string): number | undefined {
  return typeof schema[name] === 'number' ? schema[name] : undefined;
}

function asSchema(value: unknown): Schema {
  return isSchema(value) ? value : {};
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
