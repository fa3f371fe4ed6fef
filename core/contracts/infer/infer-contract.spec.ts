import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../event/event.ts';
import { contractWith, times, trackEvent } from '../contracts.fixture.ts';
import { checkSchema } from '../evaluation/compile-schema.ts';
import { createContractEvaluator } from '../evaluator.ts';
import { ContractInference } from './infer-contract.ts';

const AT = '2026-03-01T00:00:00.000Z';

const eventOf = (properties: JsonObject | undefined, received_at = AT) =>
  trackEvent(properties, { event: 'Paid', received_at });

function inferred(subjects: readonly (JsonObject | undefined)[], { requiredRatio = 1, enumMax = 10 } = {}) {
  const inference = new ContractInference('track', 'Paid');
  for (const subject of subjects) inference.add(eventOf(subject));
  return inference.infer({ requiredRatio, enumMax });
}

const schemaOf = (...args: Parameters<typeof inferred>) => inferred(...args).contract?.schema_definition;
const strict = (schema_definition: JsonObject) =>
  contractWith({ event_name: 'Paid', schema_definition, undeclared_fields: 'block' });

describe('a contract inferred from events', () => {
  it('does not exist where there were no events', () => {
    expect(inferred([])).toEqual({ contract: null, events: 0, fields: [] });
  });

  it('names the events it was inferred from, and rejects none of them', () => {
    const inference = new ContractInference('identify', '');
    for (const at of ['2026-03-02', '2026-03-01', '2026-03-03'])
      inference.add({
        ...eventOf(undefined, `${at}T00:00:00.000Z`),
        type: 'identify',
        traits: { plan: 'x' },
      });
    expect(inference.infer({ requiredRatio: 1, enumMax: 0 }).contract).toEqual({
      name: 'Any identify',
      event_type: 'identify',
      event_name: '',
      description:
        'Inferred from 3 events received from 2026-03-01T00:00:00.000Z to 2026-03-03T00:00:00.000Z.',
      schema_definition: { properties: { plan: { type: 'string', required: true } } },
      enforcement_mode: 'warn',
      undeclared_fields: 'warn',
    });
  });

  it('distinguishes integers from numbers, null and other types', () => {
    const values: Json[] = [1, 2.5, null, true, 'x'];
    const subjects = values.map((mixed, n) => ({ n, x: n / 2, mixed }));
    expect(schemaOf(subjects)).toEqual({
      properties: {
        mixed: { type: ['boolean', 'null', 'number', 'string'], required: true },
        n: { type: 'integer', required: true },
        x: { type: 'number', required: true },
      },
    });
  });

  it('requires fields that are in as many events as the option says', () => {
    const subjects = [...times(9, () => ({ often: 1, always: 1 })), { always: 1 }];
    const required = (requiredRatio: number) =>
      inferred(subjects, { requiredRatio })
        .fields.filter((field) => field.required)
        .map(({ path }) => path);
    expect(required(1)).toEqual(['/always']);
    expect(required(0.9)).toEqual(['/always', '/often']);
    expect(required(0.91)).toEqual(['/always']);
  });

  it('counts an event without properties as one that has none of the fields', () => {
    expect(inferred([{ a: 1 }, undefined]).fields).toMatchObject([
      { path: '/a', seen: 1, of: 2, required: false },
    ]);
  });

  it('finds the formats that all texts of a field have, once there were a few', () => {
    const subject = (n: number) => ({
      id: `0199f0aa-1111-7222-8333-44445555666${n}`,
      at: `2026-03-01T00:00:0${n}Z`,
      day: `2026-03-0${n + 1}`,
      mail: `u${n}@example.com`,
      ip: `192.0.2.${n}`,
      page: `https://example.com/${n}`,
      text: n === 3 ? 'no date' : '2026-03-01',
    });
    const formats = (count: number) =>
      Object.fromEntries(inferred(times(count, subject)).fields.map(({ path, format }) => [path, format]));
    expect(formats(5)).toEqual({
      '/id': 'uuid',
      '/at': 'date-time',
      '/day': 'date',
      '/mail': 'email',
      '/ip': 'ipv4',
      '/page': 'url',
      '/text': null,
    });
    expect(new Set(Object.values(formats(4)))).toEqual(new Set([null]));
  });

  it('infers an enum from few texts that repeat, null beside them too', () => {
    const plans = ['free', 'pro', 'team'];
    const subject = (n: number) => ({
      plan: plans[n % 3] ?? '',
      maybe: n % 2 === 0 ? null : (plans[n % 3] ?? ''),
    });
    expect(schemaOf(times(60, subject))).toEqual({
      properties: {
        maybe: { type: ['null', 'string'], enum: [...plans, null], required: true },
        plan: { type: 'string', enum: plans, required: true },
      },
    });
    expect(schemaOf(times(60, subject), { enumMax: 2 })).toMatchObject({
      properties: { plan: { type: 'string', required: true } },
    });
    // Too few values, a constant, and all-distinct values.
    for (const few of [
      times(12, subject),
      times(60, () => ({ plan: 'free' })),
      times(60, (n) => ({ plan: `${n}` })),
    ])
      expect(JSON.stringify(schemaOf(few))).not.toContain('enum');
  });

  it('describes objects and lists, and states how often each place held a value', () => {
    const { contract, fields } = inferred([
      { order: { lines: [{ sku: 'a', n: 1 }, { sku: 'b' }], tags: ['x', 1] } },
      { order: { lines: [] } },
    ]);
    expect(contract?.schema_definition).toEqual({
      properties: {
        order: {
          type: 'object',
          required: true,
          properties: {
            lines: {
              type: 'array',
              required: true,
              items: {
                type: 'object',
                properties: { n: { type: 'integer' }, sku: { type: 'string', required: true } },
              },
            },
            tags: { type: 'array', items: { type: ['integer', 'string'] } },
          },
        },
      },
    });
    expect(fields.map(({ path, seen, of, required }) => [path, seen, of, required])).toEqual([
      ['/order', 2, 2, true],
      ['/order/lines', 2, 2, true],
      ['/order/lines/*', 2, 2, false],
      ['/order/lines/*/n', 1, 2, false],
      ['/order/lines/*/sku', 2, 2, true],
      ['/order/tags', 1, 2, false],
      ['/order/tags/*', 2, 2, false],
    ]);
  });

  it('leaves open objects with unbounded names, and unbounded nesting', () => {
    const map = Object.fromEntries(
      times(101, (n) => ({ name: `n${n}` })).map(({ name }) => [String(name), 1]),
    );
    const deep = (depth: number): JsonObject => (depth === 0 ? { end: 1 } : { in: deep(depth - 1) });
    const subject = { map, deep: deep(100) };
    const schema = schemaOf([subject]);
    expect(schema).toMatchObject({ properties: { map: { type: 'object', required: true } } });
    expect(JSON.stringify(schema).length).toBeLessThan(2_000);
    expect(createContractEvaluator().evaluate(strict(schema ?? {}), eventOf(subject)).outcome).toBe(
      'accepted',
    );
  });

  it('is a contract, and of bounded size, also of events that are all different and huge', () => {
    const subjects = times(2_000, (n) => ({ [`object ${n % 90}`]: { [`field ${n}`]: 'x'.repeat(n) } }));
    const schema = schemaOf(subjects) ?? {};
    expect(checkSchema(schema)).toEqual([]);
    expect(JSON.stringify(schema).length).toBeLessThan(100_000);
  });

  it('takes every event it was inferred from, and has nothing undeclared in them', () => {
    const json = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4, withCrossShrink: true },
        fc.constant(null),
        fc.boolean(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.integer(),
        fc.constantFrom('a', 'b', '2026-03-01', 'u@example.com', '192.0.2.1', ''),
        fc.string({ unit: 'binary' }),
        fc.array(tie('value'), { maxLength: 4 }),
        tie('object'),
      ),
      object: fc.dictionary(
        fc.constantFrom('a', 'b', 'required', 'properties', 'items', '__proto__', 'constructor', 'a/b~c', ''),
        tie('value'),
        { maxKeys: 5 },
      ),
    }));
    const subjects = fc.array(
      json.object.map((object) => JSON.parse(JSON.stringify(object)) as JsonObject),
      { minLength: 1, maxLength: 40 },
    );
    fc.assert(
      fc.property(subjects, (shown) => {
        const { contract } = inferred(shown);
        const schema = contract?.schema_definition ?? {};
        expect(checkSchema(schema)).toEqual([]);
        const evaluator = createContractEvaluator();
        for (const subject of shown)
          expect(evaluator.evaluate(strict(schema), eventOf(subject))).toEqual({
            outcome: 'accepted',
            violations: [],
          });
      }),
      { numRuns: 150 },
    );
  });

  it('does not depend on the order of the events', () => {
    const subjects = times(80, (n) => ({
      plan: ['a', 'b'][n % 2] ?? '',
      ...(n % 3 === 0 ? { n } : { n: n / 2 }),
    }));
    expect(inferred(subjects.toReversed())).toEqual(inferred(subjects));
  });
});
