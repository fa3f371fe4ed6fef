import type { ConnectorDescription, Destination, JsonObject } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../../http/errors.ts';
import { createConfigurator } from './configure.ts';
import { MASK } from './secrets.ts';

const description: ConnectorDescription = {
  type: 'queue',
  title: 'Queue',
  description: 'A place with a secret it makes itself and one it needs.',
  settingsSchema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    required: ['url', 'password'],
    additionalProperties: false,
    properties: {
      url: { type: 'string', format: 'uri' },
      password: { type: 'string', minLength: 10 },
      signing: { type: 'string' },
      extra: { type: 'object' },
    },
  },
  secrets: ['password', 'signing'],
  maxBatch: 1,
  hasTest: true,
  generate: (settings, random) => ({ signing: Buffer.from(random(2)).toString('hex'), ...settings }),
  check: ({ password }) => (password === undefined ? [{ path: '/password', message: 'is needed' }] : []),
};

const seal = (id: string, settings: JsonObject, secrets: readonly string[]) =>
  Object.fromEntries(
    Object.entries(settings).map(([name, value]) =>
      secrets.includes(name) ? [name, { $sealed: `${id}:${value}` }] : [name, value],
    ),
  );

const configurator = createConfigurator({ seal, random: (bytes) => new Uint8Array(bytes).fill(0xab) });

const stored = (settings: JsonObject) => ({ id: 'd1', settings }) as Destination;

function faultsOf(work: () => unknown) {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError) return error.details;
    throw error;
  }
  throw new Error('taken');
}

describe('create', () => {
  it('seals secrets and shows only those it made', () => {
    const settings = { url: 'https://a.example', password: '0123456789' };
    expect(configurator.create(description, 'd1', settings)).toEqual({
      settings: {
        url: 'https://a.example',
        password: { $sealed: 'd1:0123456789' },
        signing: { $sealed: 'd1:abab' },
      },
      generated: { signing: 'abab' },
    });
  });

  it('takes a mask for a secret that is not there: nothing is stored yet', () => {
    const settings = { url: 'https://a.example', password: MASK, signing: MASK };
    expect(faultsOf(() => configurator.create(description, 'd1', settings))).toEqual([
      { path: '/settings/password', message: 'is required' },
    ]);
  });

  it('names every fault below /settings', () => {
    const settings = { url: 'nowhere', password: 'short', colour: 'red' };
    expect(faultsOf(() => configurator.create(description, 'd1', settings))).toEqual(
      expect.arrayContaining([
        { path: '/settings/url', message: 'must be a valid uri' },
        { path: '/settings/password', message: 'must have at least 10 characters' },
        { path: '/settings/colour', message: 'is not a known field' },
      ]),
    );
  });

  it('refuses what only looks sealed', () => {
    const settings = { url: 'https://a.example', password: '0123456789', extra: { $sealed: 'k1.a.b' } };
    expect(faultsOf(() => configurator.create(description, 'd1', settings))).toEqual([
      { path: '/settings/extra', message: 'is not valid' },
    ]);
  });
});

describe('replace', () => {
  const before = stored({
    url: 'https://a.example',
    password: { $sealed: 'old' },
    signing: { $sealed: 'older' },
  });

  it('keeps secrets that are masked or left out, and asks nobody for them', () => {
    const settings = { url: 'https://b.example', password: MASK };
    expect(configurator.replace(description, before, settings)).toEqual({
      url: 'https://b.example',
      password: { $sealed: 'old' },
      signing: { $sealed: 'older' },
    });
  });

  it('seals a secret that is stated anew', () => {
    const settings = { url: 'https://b.example', password: 'abcdefghij' };
    expect(configurator.replace(description, before, settings)).toMatchObject({
      password: { $sealed: 'd1:abcdefghij' },
    });
  });

  it('still misses what is neither stated nor stored', () => {
    expect(
      faultsOf(() => configurator.replace(description, stored({}), { url: 'https://b.example' })),
    ).toEqual([{ path: '/settings/password', message: 'is required' }]);
  });
});
