import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Contract } from '../../catalog/entities.ts';
import { type CanonicalEvent, isObject, type Json, type JsonObject } from '../../event/event.ts';
import { createContractEvaluator } from '../evaluator.ts';
import { canonicalJson } from '../json-values.ts';
import { planContract } from './plan.fixture.ts';
import { type TypeModel, typeModelOf } from './type-model.ts';

const RUNS = 400;
/** The linter takes an object with this member for a promise. */
const THEN = 'then';

const name = fc.constantFrom('a', 'b');
const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<Json>(null, true, 0, 1, 2.5, '', 'x', 'long'),
    fc.dictionary(name, tie('value'), { maxKeys: 2, noNullPrototype: true }),
    fc.array(tie('value'), { maxLength: 2 }),
  ),
}));

const { schema } = fc.letrec<{ schema: JsonObject; some: readonly JsonObject[] }>((tie) => ({
  some: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant({}),
    fc.record({
      type: fc.constantFrom('string', 'number', 'integer', 'object', 'array', 'null', ['string', 'null']),
    }),
    fc.record({
      enum: fc.uniqueArray(fc.constantFrom<Json>(null, 0, 1, 'x', 'long'), { minLength: 1, maxLength: 3 }),
    }),
    fc.constant({ $ref: '#/$defs/shared' }),
    fc.record(
      {
        minimum: fc.constantFrom(0, 1),
        exclusiveMaximum: fc.constantFrom(1, 2),
        minLength: fc.constantFrom(1, 2),
        maxItems: fc.constantFrom(0, 1),
      },
      { requiredKeys: [] },
    ),
    fc.record(
      {
        properties: fc.dictionary(name, tie('schema'), { maxKeys: 2, noNullPrototype: true }),
        required: fc.uniqueArray(name, { maxLength: 2 }),
        additionalProperties: tie('schema'),
        items: tie('schema'),
        allOf: tie('some'),
        anyOf: tie('some'),
        oneOf: tie('some'),
        not: tie('schema'),
        if: tie('schema'),
        [THEN]: tie('schema'),
      },
      { requiredKeys: [] },
    ),
  ),
}));

/** An object of few fields, as most alternatives are: so that many values fit one of them. */
const fields = fc.record(
  { properties: fc.dictionary(name, schema, { minKeys: 1, maxKeys: 2, noNullPrototype: true }) },
  { requiredKeys: ['properties'] },
);
const objects = fc.array(fields, { minLength: 2, maxLength: 2 });
const root = fc.oneof(
  schema,
  fields,
  objects.map((anyOf) => ({ anyOf })),
  objects.map((allOf) => ({ allOf })),
  fc.tuple(fields, objects).map(([own, anyOf]) => ({ ...own, anyOf })),
);

const definition = fc.tuple(root, schema).map(([of, shared]): JsonObject => ({ ...of, $defs: { shared } }));

/** Whether a client that checks by the model would let a value pass, but for fields that are not declared. */
function permits(model: TypeModel, given: Json): boolean {
  const { types, values, bounds } = model;
  const type = typeOf(given);
  if (types !== undefined && !types.includes(type) && !(type === 'integer' && types.includes('number')))
    return false;
  if (values !== undefined && !values.map(canonicalJson).includes(canonicalJson(given))) return false;
  const isWithin = (size: number, low: number | undefined, high: number | undefined) =>
    size >= (low ?? -Infinity) && size <= (high ?? Infinity);
  if (typeof given === 'number')
    return (
      isWithin(given, bounds.minimum, bounds.maximum) &&
      given > (bounds.exclusiveMinimum ?? -Infinity) &&
      given < (bounds.exclusiveMaximum ?? Infinity)
    );
  if (typeof given === 'string') return isWithin(given.length, bounds.minLength, bounds.maxLength);
  if (Array.isArray(given))
    return (
      isWithin(given.length, bounds.minItems, bounds.maxItems) &&
      given.every((item: Json) => model.items === undefined || permits(model.items, item))
    );
  if (!isObject(given)) return true;
  return model.fields.every((field) => {
    const member = given[field.name];
    return member === undefined ? !field.required : permits(field.model, member);
  });
}

function typeOf(given: Json) {
  if (given === null) return 'null';
  if (Array.isArray(given)) return 'array';
  if (typeof given === 'number') return Number.isInteger(given) ? 'integer' : 'number';
  if (typeof given === 'object') return 'object';
  return typeof given === 'string' ? 'string' : 'boolean';
}

it('the model of a schema never refuses what the schema permits', () => {
  const evaluator = createContractEvaluator();
  let permitted = 0;
  fc.assert(
    fc.property(
      definition,
      fc.array(fc.dictionary(name, value, { noNullPrototype: true }), { minLength: 20, maxLength: 20 }),
      (of, subjects) => {
        const model = typeModelOf(of);
        const contract = {
          ...planContract({ schema_definition: of, undeclared_fields: 'allow' }),
          id: JSON.stringify(of),
          workspace_id: 'w',
        };
        for (const subject of subjects) {
          const event = { type: 'track', event: 'Order Placed', properties: subject, workspace_id: 'w' };
          const verdict = evaluator.evaluate(
            contract as unknown as Contract,
            event as unknown as CanonicalEvent,
          );
          if (verdict.outcome !== 'accepted') continue;
          permitted++;
          expect(permits(model, subject), JSON.stringify({ of, subject })).toBe(true);
        }
      },
    ),
    { numRuns: RUNS },
  );
  expect(permitted).toBeGreaterThan(RUNS);
});
