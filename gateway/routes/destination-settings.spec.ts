import type { ConnectorDescription, Destination, JsonObject } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../errors/api-error.ts';
import { Configurator, MASK, maskSecrets } from './destination-settings.ts';

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
      token: { type: 'string' },
      safe: { type: 'boolean', default: true },
      extra: { type: 'object' },
    },
  },
  secrets: ['password', 'signing', 'token'],
  harmless: ['extra'],
  safestFirst: { safe: [true, false] },
  maxBatch: 1,
  hasTest: true,
  generate: (settings, random) => ({ signing: Buffer.from(random(2)).toString('hex'), ...settings }),
};

const seal = (id: string, settings: JsonObject, secrets: readonly string[]) =>
  Object.fromEntries(
    Object.entries(settings).map(([name, value]) =>
      secrets.includes(name) ? [name, { $sealed: `${id}:${value}` }] : [name, value],
    ),
  );

const unseal = ({ id, workspace_id, version, settings }: Destination) => ({
  id,
  workspaceId: workspace_id,
  version,
  settings: Object.fromEntries(
    Object.entries(settings).map(([name, value]) => {
      if (typeof value !== 'object') return [name, value];
      const { $sealed } = value as { readonly $sealed: string };
      if ($sealed === 'lost') throw new Error('no key opens it');
      return [name, $sealed];
    }),
  ),
});

const configurator = new Configurator({
  seal,
  unseal,
  random: (bytes) => new Uint8Array(bytes).fill(0xab),
  clock: () => 0,
});

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
  it('treats a mask as an absent secret, because nothing is stored yet', () => {
    const settings = { url: 'https://a.example', password: MASK, signing: MASK };
    expect(faultsOf(() => configurator.create(description, { id: 'd1', name: 'D' }, settings))).toEqual([
      { path: '/settings/password', message: 'is required' },
    ]);
  });

  it('refuses text in the form of a sealed secret', () => {
    const settings = { url: 'https://a.example', password: '0123456789', extra: { $sealed: 'k1.a.b' } };
    expect(faultsOf(() => configurator.create(description, { id: 'd1', name: 'D' }, settings))).toEqual([
      { path: '/settings/extra', message: 'is not valid' },
    ]);
  });
});

describe('replace', () => {
  const url = 'https://a.example';
  const before = stored({ url, password: { $sealed: 'old password' }, signing: { $sealed: 'older' } });

  it('requires a secret again for another address, except one that only signs', () => {
    const elsewhere = { url: 'https://b.example', password: MASK };
    expect(faultsOf(() => configurator.replace(description, before, elsewhere))).toEqual([
      { path: '/settings/password', message: 'must be stated again, as url is another' },
    ]);
    expect(faultsOf(() => configurator.replace(description, before, { url, safe: false }))).toEqual([
      { path: '/settings/password', message: 'must be stated again, as safe is weaker' },
    ]);
    const again = { ...elsewhere, password: 'abcdefghij' };
    expect(configurator.replace(description, before, again)).toMatchObject({ signing: { $sealed: 'older' } });
  });

  it('removes a secret that is null, unless it is required', () => {
    const both = stored({ ...before.settings, token: { $sealed: 'a token' } });
    const settings = { url, password: null, signing: null, token: null };
    expect(configurator.replace(description, both, settings)).toEqual({
      url,
      password: { $sealed: 'old password' },
      signing: { $sealed: 'older' },
    });
  });

  it('requires a secret again that no key can open', () => {
    const lost = stored({ ...before.settings, password: { $sealed: 'lost' } });
    expect(faultsOf(() => configurator.replace(description, lost, { url }))).toEqual([
      { path: '/settings/password', message: 'cannot be opened any more: state it again' },
    ]);
  });

  it('refuses a required setting that is neither given nor stored', () => {
    expect(
      faultsOf(() => configurator.replace(description, stored({}), { url: 'https://b.example' })),
    ).toEqual([{ path: '/settings/password', message: 'is required' }]);
  });
});

it('masks settings declared as secret and sealed values', () => {
  const settings = { url: 'u', secret: 'clear', headers: { $sealed: 'k1.iv.text' } };
  expect(maskSecrets(settings, ['secret'])).toEqual({ url: 'u', secret: MASK, headers: MASK });
});
