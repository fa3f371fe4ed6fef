import {
  type FieldForm,
  isJsonObject,
  type Json,
  type JsonObject,
  NUMBER_KEYWORDS,
  newFieldId,
  type SchemaForm,
  TEXT_KEYWORDS,
  TYPES,
  type TypeName,
} from './model.ts';

/** A definition with `$schema` is JSON Schema; any other has the short form, with `required: true` at a property. */
export function isShortForm(definition: JsonObject): boolean {
  return !Object.hasOwn(definition, '$schema');
}

/** Reads a `schema_definition` into a form. Nothing of it is lost, see `formToSchema`. */
export function schemaToForm(definition: JsonObject): SchemaForm {
  return formOf(definition, { isShort: isShortForm(definition), isProperty: false });
}

interface Where {
  readonly isShort: boolean;
  /** Directly below `properties`: the place where the short form has `required: true`. */
  readonly isProperty: boolean;
}

type Draft = { -readonly [Key in keyof SchemaForm]: SchemaForm[Key] };

/** Reads one member into the form; false where the form has no field for its value. */
type Reader = (form: Draft, value: Json, where: Where) => boolean;

const READERS: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ['type', readType],
  ['enum', readValues],
  ['properties', readProperties],
  ['required', readRequired],
  ['items', readItems],
  ['uniqueItems', readBoolean('uniqueItems')],
  ['additionalProperties', readBoolean('additionalProperties')],
  ...TEXT_KEYWORDS.map((keyword): [string, Reader] => [
    keyword,
    (form, value) => {
      if (typeof value !== 'string') return false;
      form.texts = { ...form.texts, [keyword]: value };
      return true;
    },
  ]),
  ...NUMBER_KEYWORDS.map((keyword): [string, Reader] => [
    keyword,
    (form, value) => {
      if (typeof value !== 'number') return false;
      form.numbers = { ...form.numbers, [keyword]: value };
      return true;
    },
  ]),
]);

function formOf(schema: JsonObject, where: Where): SchemaForm {
  const form: Draft = {
    types: [],
    texts: {},
    numbers: {},
    requiredOthers: [],
    rest: {},
    order: Object.keys(schema),
  };
  const rest: [string, Json][] = [];
  for (const [name, value] of Object.entries(schema)) {
    // `required` is read after the other members: it refers to fields that may follow it in the schema.
    if (name !== 'required' && !(READERS.get(name)?.(form, value, where) ?? false)) rest.push([name, value]);
  }
  const { required } = schema;
  if (Object.hasOwn(schema, 'required') && required !== undefined && !readRequired(form, required, where))
    rest.push(['required', required]);
  return { ...form, rest: Object.fromEntries(rest) };
}

function readType(form: Draft, value: Json): boolean {
  const listed = typeof value === 'string' ? [value] : value;
  if (!Array.isArray(listed) || listed.length === 0) return false;
  if (!listed.every(isTypeName) || new Set(listed).size !== listed.length) return false;
  form.types = listed;
  form.typeIsList = Array.isArray(value);
  return true;
}

function isTypeName(value: Json): value is TypeName {
  return TYPES.some((type) => type === value);
}

function readValues(form: Draft, value: Json): boolean {
  if (!Array.isArray(value) || value.length === 0 || new Set(value).size !== value.length) return false;
  if (value.every((item) => typeof item === 'string')) form.values = value;
  else if (value.every((item) => typeof item === 'number')) form.values = value;
  else return false;
  return true;
}

function readProperties(form: Draft, value: Json, { isShort }: Where): boolean {
  if (!isJsonObject(value)) return false;
  form.fields = Object.entries(value).map(([name, schema]): FieldForm => {
    const content = isJsonObject(schema)
      ? ({ kind: 'form', form: formOf(schema, { isShort, isProperty: true }) } as const)
      : ({ kind: 'json', json: schema } as const);
    return { id: newFieldId(), name, content };
  });
  return true;
}

function readRequired(form: Draft, value: Json, { isShort, isProperty }: Where): boolean {
  if (typeof value === 'boolean' && isShort && isProperty) {
    form.flag = value;
    return true;
  }
  if (!Array.isArray(value) || !value.every((name) => typeof name === 'string')) return false;
  if (new Set(value).size !== value.length) return false;
  const positionOf = new Map(value.map((name, at): [string, number] => [name, at]));
  form.fields = form.fields?.map((field) => {
    const listedAt = positionOf.get(field.name);
    positionOf.delete(field.name);
    return listedAt === undefined ? field : { ...field, listedAt };
  });
  form.requiredOthers = [...positionOf].map(([name, at]) => ({ name, at }));
  form.requiredIsEmpty = value.length === 0;
  return true;
}

function readItems(form: Draft, value: Json, { isShort }: Where): boolean {
  if (!isJsonObject(value)) return false;
  form.items = formOf(value, { isShort, isProperty: false });
  return true;
}

function readBoolean(keyword: 'uniqueItems' | 'additionalProperties'): Reader {
  return (form, value) => {
    if (typeof value !== 'boolean') return false;
    form[keyword] = value;
    return true;
  };
}
