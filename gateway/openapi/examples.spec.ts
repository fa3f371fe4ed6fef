import { expect, it } from 'vitest';
import { exampleOf } from './examples.ts';

const text = { type: 'string' };

it('is the own one of a schema or field before that of its name, and that before one of its type', () => {
  expect(exampleOf({ type: 'object', examples: [{ a: 1 }], properties: { a: text } })).toEqual({ a: 1 });
  const properties = { name: { ...text, examples: ['Own'] }, email: text, other: text };
  expect(exampleOf({ type: 'object', properties })).toEqual({
    name: 'Own',
    email: 'ada@example.com',
    other: 'other',
  });
});

it('takes the name of the object around a field into account', () => {
  const name = { type: 'object', properties: { name: text } };
  expect(exampleOf({ ...name, title: 'Destination' })).toEqual({ name: 'CRM' });
  expect(exampleOf({ ...name, title: 'Elsewhere' })).toEqual({ name: 'Checkout' });
});

it('leaves out an example by name that is not of the type or among the words of the field', () => {
  const of = (schema: object) => exampleOf({ type: 'object', properties: { type: schema } });
  expect(of(text)).toEqual({ type: 'webhook' });
  expect(of({ type: 'integer', minimum: 3 })).toEqual({ type: 3 });
  expect(of({ type: 'string', enum: ['api_key', 'write_key'] })).toEqual({ type: 'api_key' });
  expect(of({ type: 'string', format: 'uuid' })).toEqual({ type: expect.stringMatching(/^[0-9a-f-]{36}$/) });
});

it('has null where the type alone allows it, the first branch of a union, and one item of a list', () => {
  expect(exampleOf({ type: ['string', 'null'], enum: ['a', null] })).toBe('a');
  expect(exampleOf({ type: 'null' })).toBeNull();
  expect(exampleOf({ type: 'string', anyOf: [{ format: 'date-time' }, { format: 'date' }] })).toMatch(
    /T.*Z$/,
  );
  expect(exampleOf({ type: 'array', items: { type: 'boolean' } })).toEqual([false]);
});
