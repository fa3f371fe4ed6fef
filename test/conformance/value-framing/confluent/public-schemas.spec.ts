import { PUBLIC_SCHEMAS, TOPIC } from '@tributary/core';
import { Ajv, type ValidateFunction } from 'ajv';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { event } from '../../../stages/harness.ts';
import { events, profileChanges, validated } from '../suite/records.ts';

const ajv = new Ajv({ allErrors: true });
const validators = new Map(
  [...PUBLIC_SCHEMAS].map(([topic, schema]): [string, ValidateFunction] => [topic, ajv.compile(schema)]),
);

/** The errors of the topic's schema for a value; empty when the value is valid. */
function objections(topic: string, value: string): readonly string[] {
  const validator = validators.get(topic);
  if (validator === undefined) throw new Error(`${topic} is not public`);
  validator(JSON.parse(value));
  return (validator.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

describe('the schemas of the public topics', () => {
  it.each([
    ['rejects', { enforcement_mode: 'block', undeclared_fields: 'block' }],
    ['omits', { enforcement_mode: 'warn', undeclared_fields: 'omit' }],
    ['warns', { enforcement_mode: 'warn', undeclared_fields: 'warn' }],
    ['passes', { enforcement_mode: 'allow', undeclared_fields: 'allow' }],
  ] as const)('take whatever validate emits where a contract %s', async (_what, terms) => {
    const batches = fc.uniqueArray(events, {
      minLength: 1,
      maxLength: 50,
      selector: (one) => one.message_id,
    });
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(batches, async (batch) => {
        for (const { topic, value } of await validated(batch, terms)) {
          expect(objections(topic, value)).toEqual([]);
          seen.add(topic);
        }
      }),
      { numRuns: 10 },
    );
    expect([...seen]).toContain(terms.enforcement_mode === 'block' ? TOPIC.rejected : TOPIC.accepted);
    expect(seen.has(TOPIC.violations)).toBe(terms.enforcement_mode !== 'allow');
  });

  it('take an event that lost its undeclared fields', async () => {
    const sent = event('m1', { properties: { total: 3, secret: 'x' } });
    const [accepted] = await validated([sent], { enforcement_mode: 'block', undeclared_fields: 'omit' });
    expect(accepted).toMatchObject({ topic: TOPIC.accepted, headers: { outcome: 'omitted' } });
    expect(accepted?.value).not.toContain('secret');
    expect(objections(TOPIC.accepted, accepted?.value ?? '')).toEqual([]);
  });

  it('refuse an event that lacks a field or has one of another type', () => {
    const { message_id: _gone, ...rest } = event('m1');
    expect(objections(TOPIC.accepted, JSON.stringify(rest))).toHaveLength(1);
    expect(objections(TOPIC.accepted, JSON.stringify({ ...event('m1'), type: null }))).not.toEqual([]);
  });

  it('accept all changes of profiles', async () => {
    const values = await profileChanges();
    for (const value of values) expect(objections(TOPIC.profileChanges, value)).toEqual([]);
  });

  it('take fields that a later version adds', () => {
    expect(objections(TOPIC.accepted, JSON.stringify({ ...event('m1'), later: 1 }))).toEqual([]);
  });
});
