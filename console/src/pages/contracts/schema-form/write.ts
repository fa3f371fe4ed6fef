import {
  type FieldForm,
  type Json,
  type JsonObject,
  NUMBER_KEYWORDS,
  type SchemaForm,
  TEXT_KEYWORDS,
} from './model.ts';

/** The `schema_definition` of a form: members in the order they were read in, new ones last. */
export function formToSchema(form: SchemaForm): JsonObject {
  const members = membersOf(form);
  const known = form.order.filter((name) => members.has(name));
  const added = [...members.keys()].filter((name) => !form.order.includes(name));
  return Object.fromEntries(
    [...known, ...added].map((name): [string, Json] => [name, members.get(name) ?? null]),
  );
}

/** The members of a form, in the order that a new schema gets. */
function membersOf(form: SchemaForm): ReadonlyMap<string, Json> {
  const members = new Map<string, Json>();
  const put = (name: string, value: Json | undefined) => {
    if (value !== undefined) members.set(name, value);
  };
  put('type', form.typeIsList === true || form.types.length > 1 ? typeListOf(form) : form.types[0]);
  for (const keyword of TEXT_KEYWORDS) put(keyword, form.texts[keyword]);
  put('enum', form.values);
  for (const keyword of NUMBER_KEYWORDS) put(keyword, form.numbers[keyword]);
  put('items', form.items && formToSchema(form.items));
  put('uniqueItems', form.uniqueItems);
  put('properties', form.fields && propertiesOf(form.fields));
  put('required', form.flag ?? requiredListOf(form));
  put('additionalProperties', form.additionalProperties);
  for (const [name, value] of Object.entries(form.rest)) members.set(name, value);
  return members;
}

function typeListOf({ types }: SchemaForm): Json | undefined {
  return types.length === 0 ? undefined : types;
}

function propertiesOf(fields: readonly FieldForm[]): JsonObject {
  return Object.fromEntries(
    fields.map(({ name, content }): [string, Json] => [
      name,
      content.kind === 'form' ? formToSchema(content.form) : content.json,
    ]),
  );
}

function requiredListOf({ fields = [], requiredOthers, requiredIsEmpty }: SchemaForm): Json | undefined {
  const listed = fields.flatMap(({ name, listedAt }) =>
    listedAt === undefined ? [] : [{ name, at: listedAt }],
  );
  const names = [...requiredOthers, ...listed]
    .sort((one, other) => one.at - other.at)
    .map(({ name }) => name);
  return names.length > 0 || requiredIsEmpty === true ? names : undefined;
}
