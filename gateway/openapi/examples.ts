import { FIELD_EXAMPLES } from './field-examples.ts';

type Schema = Readonly<Record<string, unknown>>;

/**
 * An example of a schema: its own one where it has one, else composed of those of its fields. A field's example is, in
 * this order, its own, the one of its name in `FIELD_EXAMPLES`, and one that its type suggests. Required and optional
 * fields are shown. `field` names the field that has the schema, `parent` the title or field of the object around it.
 */
export function exampleOf(schema: unknown, field = '', parent = ''): unknown {
  const { examples, example, const: constant, anyOf, ...own } = (schema ?? {}) as Schema;
  if (Array.isArray(examples)) return examples[0];
  if (example !== undefined) return example;
  if (constant !== undefined) return constant;
  const named = [`${parent}.${field}`, field].map((key) => FIELD_EXAMPLES[key]);
  const fitting = named.find((value) => value !== undefined && suits(value, own));
  if (fitting !== undefined) return fitting;
  if (Array.isArray(anyOf)) return exampleOf({ ...own, ...(anyOf[0] as Schema) }, field, parent);
  return exampleOfType(own, field, parent);
}

function exampleOfType(schema: Schema, field: string, parent: string): unknown {
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  switch (typesOf(schema)[0]) {
    case 'object':
      return exampleOfObject(schema, field);
    case 'array': {
      const item = exampleOf(schema.items, field, parent);
      return item === undefined ? [] : [item];
    }
    case 'string':
      return exampleOfText(schema, field);
    case 'integer':
    case 'number':
      return typeof schema.minimum === 'number' ? schema.minimum : 0;
    case 'boolean':
      return false;
    case 'null':
      return null;
    default:
      return undefined;
  }
}

function exampleOfObject({ title, properties, additionalProperties }: Schema, field: string): unknown {
  if (properties === undefined && typeof additionalProperties === 'object')
    return { email: exampleOf(additionalProperties, 'value') };
  return Object.fromEntries(
    Object.entries((properties ?? {}) as Schema).flatMap(([name, member]) => {
      const value = exampleOf(member, name, typeof title === 'string' ? title : field);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function exampleOfText({ format }: Schema, field: string): string {
  if (format === 'uuid') return '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';
  if (format === 'date-time') return '2026-03-01T09:30:00.000Z';
  return format === 'date' ? '2026-03-01' : field;
}

function typesOf({ type }: Schema): readonly unknown[] {
  return Array.isArray(type) ? type : [type];
}

/** Whether a value is of the type and among the words of a schema: fields of one name differ from resource to resource. */
function suits(value: unknown, schema: Schema): boolean {
  const types = typesOf(schema);
  const isOfType =
    types[0] === undefined ||
    types.includes(typeOf(value)) ||
    (Number.isInteger(value) && types.includes('integer'));
  if (!isOfType || hasFormat(schema)) return false;
  if (Array.isArray(schema.enum)) return schema.enum.includes(value);
  if (Array.isArray(value)) {
    const items = (schema.items ?? {}) as Schema;
    return value.every((item) => suits(item, items)) && !hasFields(items);
  }
  return !hasFields(schema);
}

/** Whether a text has a form of its own, which an example by name could miss. */
function hasFormat({ type, format }: Schema): boolean {
  return (format === 'uuid' || format === 'date-time') && !Array.isArray(type);
}

/** Whether a schema names its fields, which then have their own examples. */
function hasFields({ properties }: Schema): boolean {
  return properties !== undefined && Object.keys(properties as object).length > 0;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
