import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addField,
  countFields,
  fieldFaults,
  isRequired,
  removeField,
  setRequired,
  setRest,
  updateField,
} from './edit.ts';
import {
  type FieldForm,
  type Json,
  type JsonObject,
  NUMBER_KEYWORDS,
  TEXT_KEYWORDS,
  TYPES,
} from './model.ts';
import { isShortForm, schemaToForm } from './read.ts';
import { formToSchema } from './write.ts';

const NAMES = ['a', 'b', 'order_id', '', '1', '__proto__', 'toString', 'x~/y'];
const name = fc.oneof(fc.constantFrom(...NAMES), fc.string({ maxLength: 5 }));
const json = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>;

/** Definitions as people write them, and with values of any shape at any keyword. */
const { schema } = fc.letrec<{ schema: JsonObject; member: [string, Json] }>((tie) => ({
  member: fc.oneof(
    { maxDepth: 4 },
    entry('type', fc.oneof(fc.constantFrom(...TYPES), fc.uniqueArray(fc.constantFrom(...TYPES)), json)),
    ...TEXT_KEYWORDS.map((keyword) => entry(keyword, fc.oneof(fc.string(), json))),
    ...NUMBER_KEYWORDS.map((keyword) => entry(keyword, fc.oneof(fc.double({ noNaN: true }), json))),
    entry('enum', fc.oneof(fc.array(fc.string()), fc.array(fc.integer()), json)),
    entry('required', fc.oneof(fc.boolean(), fc.uniqueArray(name), fc.array(name), json)),
    entry('uniqueItems', fc.oneof(fc.boolean(), json)),
    entry('additionalProperties', fc.oneof(fc.boolean(), tie('schema'), json)),
    entry('items', fc.oneof(tie('schema'), json)),
    entry('properties', fc.oneof(fc.dictionary(name, fc.oneof(tie('schema'), fc.boolean(), json)), json)),
    entry('anyOf', fc.array(tie('schema'), { maxLength: 2 })),
    entry('x-labels', json),
    fc.tuple(name, json),
  ),
  schema: fc
    .array(tie('member'), { maxLength: 6 })
    .chain((members) =>
      fc.boolean().map((isDraft) => Object.fromEntries(isDraft ? [...members, ['$schema', 'x']] : members)),
    ),
}));

function entry(keyword: string, value: fc.Arbitrary<Json>): fc.Arbitrary<[string, Json]> {
  return value.map((held) => [keyword, held]);
}

function fieldNamed(definition: JsonObject, wanted: string): FieldForm {
  const field = schemaToForm(definition).fields?.find((candidate) => candidate.name === wanted);
  if (field === undefined) throw new Error(`no field ${wanted}`);
  return field;
}

describe('a schema as a form', () => {
  it('is written back unchanged, whatever it holds, with its members in their order', () => {
    fc.assert(
      fc.property(schema, (definition) => {
        const back = formToSchema(schemaToForm(definition));
        expect(JSON.stringify(back)).toBe(JSON.stringify(definition));
      }),
      { numRuns: 2_000 },
    );
  });

  it('is written back without the removed field, and unchanged otherwise', () => {
    fc.assert(
      fc.property(schema, fc.nat(), (definition, at) => {
        const form = schemaToForm(definition);
        const fields = form.fields ?? [];
        const field = fields[at % Math.max(1, fields.length)];
        fc.pre(field !== undefined && !Object.hasOwn(form.rest, 'required'));
        const { properties, required, ...others } = formToSchema(removeField(form, field?.id ?? ''));
        const { properties: all, required: listed, ...before } = definition;
        expect(JSON.stringify(others)).toBe(JSON.stringify(before));
        expect(Object.keys(Object(properties)).sort()).toEqual(
          Object.keys(Object(all))
            .filter((key) => key !== field?.name)
            .sort(),
        );
        if (Array.isArray(listed) && listed.length > 0)
          expect(required ?? []).toEqual(listed.filter((key) => key !== field?.name));
      }),
    );
  });

  it('makes a field required and optional again without touching anything else', () => {
    fc.assert(
      fc.property(schema, fc.nat(), (definition, at) => {
        const isShort = isShortForm(definition);
        const form = schemaToForm(definition);
        const fields = form.fields ?? [];
        const field = fields[at % Math.max(1, fields.length)];
        fc.pre(field !== undefined && !isRequired(field));
        const required = setRequired(form, field?.id ?? '', true, isShort);
        fc.pre(required !== undefined);
        if (required === undefined || field === undefined) return;
        expect(required.fields?.filter(isRequired).map(({ id }) => id)).toContain(field.id);
        expect(
          schemaToForm(formToSchema(required))
            .fields?.filter(isRequired)
            .map((one) => one.name),
        ).toContain(field.name);
        const back = setRequired(required, field.id, false, isShort);
        const isFalse = field.content.kind === 'form' && field.content.form.flag === false;
        if (back !== undefined && !isFalse && form.requiredIsEmpty !== true)
          expect(JSON.stringify(formToSchema(back))).toBe(JSON.stringify(definition));
      }),
    );
  });

  it('keeps keywords that have no field in the form, and reads those that have one', () => {
    fc.assert(
      fc.property(schema, (definition) => {
        const form = schemaToForm(definition);
        const same = setRest(form, form.rest, isShortForm(definition));
        expect(JSON.stringify(sorted(formToSchema(same)))).toBe(JSON.stringify(sorted(definition)));
      }),
    );
    const form = schemaToForm({ type: 'string', 'x-a': 1 });
    expect(formToSchema(setRest(form, { 'x-b': 2, minLength: 3 }, true))).toEqual({
      type: 'string',
      'x-b': 2,
      minLength: 3,
    });
  });
});

/** Members by name at every depth. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, held]): [string, Json] => [key, sorted(held)]);
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
}

describe('required', () => {
  const SHORT = { properties: { id: { type: 'string', required: true }, at: { type: 'string' } } };
  const LISTED = { $schema: 'x', required: ['gone', 'id'], properties: { at: {}, id: {} } };

  it.each([SHORT, LISTED])('is read from the property and from the list', (definition) => {
    expect(isRequired(fieldNamed(definition, 'id'))).toBe(true);
    expect(isRequired(fieldNamed(definition, 'at'))).toBe(false);
  });

  it('is written in the way the object has it', () => {
    const require = (definition: JsonObject) => {
      const form = schemaToForm(definition);
      const id = form.fields?.find(({ name }) => name === 'at')?.id ?? '';
      return formToSchema(setRequired(form, id, true, isShortForm(definition)) ?? form);
    };
    expect(require(SHORT)).toEqual({
      properties: { id: { type: 'string', required: true }, at: { type: 'string', required: true } },
    });
    expect(require(LISTED)).toMatchObject({ required: ['gone', 'id', 'at'] });
    const nested = { properties: { at: { properties: { b: {} }, required: ['b'] } } };
    expect(require(nested)).toEqual({ ...nested, required: ['at'] });
  });

  it('follows a field that is renamed', () => {
    const form = schemaToForm(LISTED);
    const id = form.fields?.find(({ name }) => name === 'id')?.id ?? '';
    const renamed = updateField(form, id, (field) => ({ ...field, name: 'order_id' }));
    expect(formToSchema(renamed)).toMatchObject({
      required: ['gone', 'order_id'],
      properties: { at: {}, order_id: {} },
    });
  });
});

it('finds fields without a name and two of the same name, at any depth', () => {
  const form = schemaToForm({ properties: { a: { items: { properties: { b: {}, c: {} } } }, '': {} } });
  expect([...fieldFaults(form).values()]).toEqual([]);
  expect([...fieldFaults(addField(form)).values()]).toEqual(['Name the field.']);
  const twice = schemaToForm({ properties: { a: {}, b: {} } });
  const [, second] = twice.fields ?? [];
  const clash = updateField(twice, second?.id ?? '', (field) => ({ ...field, name: 'a' }));
  expect([...fieldFaults(clash)]).toEqual([[second?.id, 'There is a field of this name already.']]);
  expect(countFields(form)).toBe(4);
});
