import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ENFORCEMENT_MODES, UNDECLARED_FIELDS } from '../catalog/entities.ts';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import type { ContractTerms } from './contract.ts';
import { contractWith, trackEvent } from './contracts.fixture.ts';
import { createContractEvaluator } from './evaluator.ts';
import { MAX_VIOLATIONS } from './violation.ts';

const contract = (terms: Partial<ContractTerms>, id = JSON.stringify(terms), version = 1) =>
  contractWith({ id, version, ...terms });

const evaluator = createContractEvaluator();

function evaluate(terms: Partial<ContractTerms>, properties?: JsonObject) {
  return evaluator.evaluate(contract(terms), trackEvent(properties));
}

const schema_definition = {
  properties: {
    plan: { type: 'string', required: true },
    seats: { type: 'integer' },
    address: { properties: { city: {} } },
  },
};

describe('the events that a contract applies to', () => {
  it('are the properties of track and page', () => {
    expect(evaluate({ schema_definition }, { plan: 'pro' }).outcome).toBe('accepted');
    const page: CanonicalEvent = { ...trackEvent({ plan: 'pro' }), type: 'page' };
    expect(evaluator.evaluate(contract({ schema_definition }), page).outcome).toBe('accepted');
  });

  it('are the traits of identify and group', () => {
    const identify: CanonicalEvent = {
      ...trackEvent({ plan: 1 }),
      type: 'identify',
      traits: { plan: 'pro' },
    };
    expect(evaluator.evaluate(contract({ schema_definition }), identify).outcome).toBe('accepted');
  });

  it('are no fields at all when the event has none', () => {
    expect(evaluate({ schema_definition }).violations).toEqual([
      { kind: 'required', path: '/plan', message: 'is required', action: 'blocked' },
    ]);
  });
});

describe('enforcement', () => {
  const bad = { seats: 'many', extra: 1 };

  it('allow: the event passes untouched and nothing is recorded, whatever the other terms are', () => {
    for (const undeclared_fields of UNDECLARED_FIELDS) {
      const verdict = evaluate({ schema_definition, enforcement_mode: 'allow', undeclared_fields }, bad);
      expect(verdict).toEqual({ outcome: 'accepted', violations: [] });
    }
  });

  it('warn: the event passes and its violations are recorded', () => {
    expect(evaluate({ schema_definition, enforcement_mode: 'warn' }, bad)).toEqual({
      outcome: 'warned',
      violations: [
        { kind: 'required', path: '/plan', message: 'is required', action: 'warned' },
        { kind: 'type', path: '/seats', message: 'must be an integer', action: 'warned' },
      ],
    });
  });

  it('block: a violation rejects the event', () => {
    const verdict = evaluate({ schema_definition, enforcement_mode: 'block' }, { plan: 'pro', seats: 1.5 });
    expect(verdict).toEqual({
      outcome: 'rejected',
      violations: [{ kind: 'type', path: '/seats', message: 'must be an integer', action: 'blocked' }],
    });
  });
});

describe('an undeclared field', () => {
  const good = { plan: 'pro', address: { city: 'Bonn', zip: '1' }, extra: 1 };
  const paths = ['/address/zip', '/extra'];

  function verdict(
    enforcement_mode: 'warn' | 'block',
    undeclared_fields: ContractTerms['undeclared_fields'],
  ) {
    const { outcome, violations, subject } = evaluate(
      { schema_definition, enforcement_mode, undeclared_fields },
      good,
    );
    return { outcome, subject, violations: violations.map(({ kind, path, action }) => [kind, path, action]) };
  }

  function each(action: string) {
    return paths.map((path) => ['undeclared', path, action]);
  }

  it('may be allowed', () => {
    for (const mode of ['warn', 'block'] as const) {
      expect(verdict(mode, 'allow')).toEqual({ outcome: 'accepted', violations: [], subject: undefined });
    }
  });

  it('may be recorded, which never rejects', () => {
    for (const mode of ['warn', 'block'] as const) {
      expect(verdict(mode, 'warn')).toEqual({
        outcome: 'warned',
        violations: each('warned'),
        subject: undefined,
      });
    }
  });

  it('may be omitted', () => {
    for (const mode of ['warn', 'block'] as const) {
      expect(verdict(mode, 'omit')).toEqual({
        outcome: 'omitted',
        violations: each('omitted'),
        subject: { plan: 'pro', address: { city: 'Bonn' } },
      });
    }
  });

  it('may be a violation', () => {
    expect(verdict('warn', 'block')).toEqual({
      outcome: 'warned',
      violations: each('warned'),
      subject: undefined,
    });
    expect(verdict('block', 'block')).toEqual({
      outcome: 'rejected',
      violations: each('blocked'),
      subject: undefined,
    });
  });

  it('is recorded beside the violation that rejects the event, and stays in it', () => {
    const found = evaluate({ schema_definition, undeclared_fields: 'omit' }, { seats: 1, extra: 1 });
    expect(found).toEqual({
      outcome: 'rejected',
      violations: [
        { kind: 'required', path: '/plan', message: 'is required', action: 'blocked' },
        { kind: 'undeclared', path: '/extra', message: 'is not declared', action: 'warned' },
      ],
    });
  });

  it('that the schema itself forbids is one violation, of the schema', () => {
    const closed = { type: 'object', properties: { a: {} }, additionalProperties: false };
    const outcomes = UNDECLARED_FIELDS.map((undeclared_fields) =>
      evaluate({ schema_definition: closed, undeclared_fields }, { b: 1 }),
    );
    for (const outcome of outcomes) {
      expect(outcome).toEqual({
        outcome: 'rejected',
        violations: [{ kind: 'undeclared', path: '/b', message: 'is not declared', action: 'blocked' }],
      });
    }
  });

  it('that the schema itself forbids can be omitted where nothing is blocked', () => {
    const closed = { type: 'object', properties: { a: {} }, additionalProperties: false };
    const terms = { schema_definition: closed, enforcement_mode: 'warn', undeclared_fields: 'omit' } as const;
    expect(evaluate(terms, { a: 1, b: 1 })).toEqual({
      outcome: 'omitted',
      violations: [{ kind: 'undeclared', path: '/b', message: 'is not declared', action: 'omitted' }],
      subject: { a: 1 },
    });
  });

  it('is recorded up to the bound, and removed beyond it', () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`x${at}`, at]));
    const found = evaluate({ schema_definition, undeclared_fields: 'omit' }, { plan: 'pro', ...many });
    expect(found.violations).toHaveLength(MAX_VIOLATIONS);
    expect(found.subject).toEqual({ plan: 'pro' });
  });
});

describe('the versions of a contract', () => {
  it('are evaluated each by its own schema, also after they were dropped from memory', () => {
    const small = createContractEvaluator(2);
    const first = contract({ schema_definition: { properties: { a: { type: 'string' } } } }, 'c', 1);
    const second = contract({ schema_definition: { properties: { a: { type: 'number' } } } }, 'c', 2);
    for (let round = 0; round < 3; round++) {
      expect(small.evaluate(first, trackEvent({ a: 1 })).outcome).toBe('rejected');
      expect(small.evaluate(second, trackEvent({ a: 1 })).outcome).toBe('accepted');
    }
  });

  it('whose schema no longer compiles are a violation of every event', () => {
    const broken = evaluate({ schema_definition: { nonsense: true } }, {});
    expect(broken).toMatchObject({ outcome: 'rejected', violations: [{ kind: 'schema', path: '' }] });
    expect(evaluate({ schema_definition: { nonsense: true }, enforcement_mode: 'warn' }, {}).outcome).toBe(
      'warned',
    );
  });
});

describe('a hostile event', () => {
  const recursive = { properties: { a: { $ref: '#' } }, items: { $ref: '#' } };

  function deep(open: string, close: string, times: number): JsonObject {
    return { a: JSON.parse(`${open.repeat(times)}1${close.repeat(times)}`) };
  }

  it('nested without end does not overflow the stack', () => {
    for (const undeclared_fields of UNDECLARED_FIELDS) {
      for (const event of [deep('[', ']', 16_000), deep('{"a":', '}', 5_000)]) {
        expect(evaluate({ schema_definition: recursive, undeclared_fields }, event)).toMatchObject({
          outcome: 'rejected',
          violations: [{ kind: 'bounds', path: '' }],
        });
        expect(
          evaluate({ schema_definition: { properties: { a: {} } }, undeclared_fields }, event).outcome,
        ).toBe('accepted');
      }
    }
    const distinct = { properties: { a: { uniqueItems: true } } };
    expect(evaluate({ schema_definition: distinct }, deep('[', ']', 16_000)).outcome).toBe('rejected');
  });

  it('that takes too much work is a violation, quickly', () => {
    const wide = { properties: { a: { items: { allOf: Array(4_900).fill({ type: 'string' }) } } } };
    const found = evaluate({ schema_definition: wide }, { a: Array(16_000).fill(1) });
    expect(found).toMatchObject({ outcome: 'rejected', violations: [{ kind: 'schema', path: '' }] });
  });

  it('with numbers beyond a double, or fields named like methods, is evaluated', () => {
    const definition = {
      properties: {
        n: { type: 'number', multipleOf: 0.1, maximum: 5 },
        o: { enum: [{ x: 1 }] },
        p: { const: { y: 1 } },
      },
    };
    const event = JSON.parse(
      '{"n":1e999,"o":{"valueOf":1,"toString":2},"p":{"hasOwnProperty":1}}',
    ) as JsonObject;
    const found = evaluate({ schema_definition: definition, undeclared_fields: 'omit' }, event);
    expect(found.outcome).toBe('rejected');
  });
});

it.each([
  ['\\Aab\\z', ['ab'], ['xab', 'abx', 'AabZ']],
  ['\\A[a-z]+\\Z', ['ab'], ['1ab', 'ab1', 'AabZ']],
  ['^(\\d{2}|x)\\Z', ['12', 'x'], ['12Z', 'x ']],
  ['[\\Z]', ['Z'], ['a']],
])('a pattern with the anchors of other languages matched nothing: %s', (pattern, fitting, others) => {
  const outcomeOf = (a: string) =>
    evaluate({ schema_definition: { properties: { a: { pattern } } } }, { a }).outcome;
  expect(fitting.map(outcomeOf)).toEqual(fitting.map(() => 'accepted'));
  expect(others.map(outcomeOf)).toEqual(others.map(() => 'rejected'));
});

describe('for any JSON', () => {
  const definitions: readonly JsonObject[] = [
    schema_definition,
    {
      properties: { a: { $ref: '#' }, b: { items: { $ref: '#' }, uniqueItems: true } },
      additionalProperties: false,
    },
    { anyOf: [{ properties: { a: { format: 'date-time' } } }, { required: ['b'], minProperties: 2 }] },
    {
      propertyNames: { pattern: '^.$' },
      patternProperties: { '[ab]': { enum: [1, 'x', { a: 1 }] } },
      unevaluatedProperties: false,
    },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    { if: { required: ['a'] }, then: { properties: { a: { not: { type: 'null' } } } }, else: false },
  ];
  const terms = fc.record({
    schema_definition: fc.constantFrom(...definitions),
    enforcement_mode: fc.constantFrom(...ENFORCEMENT_MODES),
    undeclared_fields: fc.constantFrom(...UNDECLARED_FIELDS),
  });
  const subject = fc
    .dictionary(fc.oneof(fc.constantFrom('a', 'b', '__proto__', 'plan'), fc.string()), fc.jsonValue())
    .map((object) => JSON.parse(JSON.stringify(object)) as JsonObject);

  it('a verdict is pure, bounded, and true to the mode', () => {
    fc.assert(
      fc.property(terms, subject, (given, properties) => {
        const before = JSON.stringify(properties);
        const verdict = evaluate(given, properties);
        expect(evaluate(given, properties)).toEqual(verdict);
        expect(createContractEvaluator().evaluate(contract(given), trackEvent(properties))).toEqual(verdict);
        expect(JSON.stringify(properties)).toBe(before);
        expect(verdict.violations.length).toBeLessThanOrEqual(MAX_VIOLATIONS);
        const ids = verdict.violations.map(({ kind, path }) => `${kind} ${path}`);
        expect(new Set(ids).size).toBe(ids.length);
        if (given.enforcement_mode === 'allow')
          expect(verdict).toEqual({ outcome: 'accepted', violations: [] });
        if (given.enforcement_mode !== 'block') expect(verdict.outcome).not.toBe('rejected');
        expect(verdict.subject === undefined).toBe(verdict.outcome !== 'omitted');
        expect(verdict.violations.some(({ action }) => action === 'blocked')).toBe(
          verdict.outcome === 'rejected',
        );
      }),
      { numRuns: 300 },
    );
  });
});
