import { describe, expect, it } from 'vitest';
import { fieldOf, titleOf } from './fields.ts';

const object = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  required,
});

function kindsOf(schema: object) {
  const root = fieldOf(schema);
  return root.kind === 'group'
    ? Object.fromEntries(root.fields.map(({ name, kind }) => [name, kind]))
    : root.kind;
}

describe('fieldOf', () => {
  it('has a field for each shape of settings', () => {
    const schema = object({
      url: { type: 'string' },
      certificate: { type: 'string', maxLength: 20_000 },
      port: { type: 'integer', minimum: 1 },
      tls: { type: 'boolean' },
      region: { type: 'string', enum: ['eu', 'us'] },
      version: { const: 2 },
      brokers: { type: 'array', items: { type: 'string' } },
      presets: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
      headers: { type: 'object', additionalProperties: { type: 'string' } },
      limits: object({ bytes: { type: 'integer' } }),
      actions: { type: 'array', items: object({ action: { type: 'string' } }) },
      signing: { oneOf: [object({ key: { type: 'string' } }), object({ file: { type: 'string' } })] },
      note: { type: ['string', 'null'] },
    });
    expect(kindsOf(schema)).toEqual({
      url: 'text',
      certificate: 'text',
      port: 'number',
      tls: 'boolean',
      region: 'choice',
      version: 'constant',
      brokers: 'texts',
      presets: 'choices',
      headers: 'pairs',
      limits: 'group',
      actions: 'list',
      signing: 'variants',
      note: 'text',
    });
  });

  it('leaves to JSON what no field expresses', () => {
    const schema = object({
      mapping: { type: 'object' },
      matrix: { type: 'array', items: { type: 'array', items: { type: 'number' } } },
      anything: {},
      several: { type: ['string', 'number'] },
      named: { $ref: '#/$defs/other' },
      numbers: { type: 'object', additionalProperties: { type: 'number' } },
    });
    expect(new Set(Object.values(kindsOf(schema)))).toEqual(new Set(['json']));
    expect(fieldOf(true)).toMatchObject({ kind: 'json' });
    expect(fieldOf({ type: 'object' })).toMatchObject({ kind: 'json', type: 'object' });
  });

  it('ends in JSON where objects are nested without end', () => {
    const nested = Array.from({ length: 20 }).reduce<object>((inner) => object({ inner }), {
      type: 'string',
    });
    expect(JSON.stringify(fieldOf(nested))).toContain('"kind":"json"');
  });

  it('states which fields are required, secret or set by the server, and their descriptions', () => {
    const schema = object(
      {
        url: { type: 'string', title: 'URL', description: 'Where to.', examples: ['https://a.example'] },
        apiKey: { type: 'string', writeOnly: true },
        until: { type: 'string', readOnly: true },
        port: { type: 'integer', default: 80, maximum: 9 },
      },
      ['url'],
    );
    expect(fieldOf(schema)).toMatchObject({
      fields: [
        {
          title: 'URL',
          description: 'Where to.',
          required: true,
          secret: false,
          example: 'https://a.example',
        },
        { title: 'Api key', required: false, secret: true },
        { readOnly: true },
        { default: 80, maximum: 9, integer: true },
      ],
    });
  });

  it('a variant has the properties that all variants share', () => {
    const schema = {
      ...object({ host: { type: 'string' } }, ['host']),
      oneOf: [
        { title: 'By key', ...object({ key: { type: 'string' } }, ['key']) },
        { title: 'By user', ...object({ user: { type: 'string' } }) },
      ],
    };
    expect(fieldOf(schema)).toMatchObject({
      kind: 'variants',
      variants: [
        {
          title: 'By key',
          fields: [
            { name: 'host', required: true },
            { name: 'key', required: true },
          ],
        },
        { title: 'By user', fields: [{ name: 'host' }, { name: 'user', required: false }] },
      ],
    });
  });
});

describe('titleOf', () => {
  it('makes words of names', () => {
    expect([titleOf('access_key_id'), titleOf('apiKey'), titleOf('url')]).toEqual([
      'Access key id',
      'Api key',
      'Url',
    ]);
  });
});
