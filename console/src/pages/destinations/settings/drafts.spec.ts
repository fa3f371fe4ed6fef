import { describe, expect, it } from 'vitest';
import { type Draft, draftOf, draftPathOf, emptyDraft, faultsOf, MASK, settingOf } from './drafts.ts';
import { fieldOf, type Json } from './fields.ts';

const field = fieldOf({
  type: 'object',
  required: ['url', 'password'],
  properties: {
    url: { type: 'string', pattern: '^https?://', examples: ['https://a.example'] },
    password: { type: 'string', writeOnly: true, minLength: 4 },
    headers: { type: 'object', writeOnly: true, additionalProperties: { type: 'string' } },
    port: { type: 'integer', minimum: 1, maximum: 9, default: 5 },
    tls: { type: 'boolean', default: true },
    region: { type: 'integer', enum: [1, 2] },
    brokers: { type: 'array', items: { type: 'string', pattern: ':' } },
    until: { type: 'string', readOnly: true },
    actions: {
      type: 'array',
      items: {
        type: 'object',
        required: ['action'],
        properties: { action: { type: 'string' }, mapping: { type: 'object' } },
      },
    },
    way: {
      oneOf: [
        {
          title: 'Key',
          type: 'object',
          required: ['key'],
          properties: { kind: { const: 'key' }, key: { type: 'string' } },
        },
        {
          title: 'User',
          type: 'object',
          required: ['user'],
          properties: { kind: { const: 'user' }, user: { type: 'string' } },
        },
      ],
    },
  },
});

const stored = {
  url: 'https://a.example',
  password: MASK,
  headers: MASK,
  port: 7,
  tls: false,
  region: 2,
  brokers: ['a:1'],
  until: '2026-01-01T00:00:00Z',
  actions: [{ action: 'identify', mapping: { a: 1 } }],
  way: { kind: 'user', user: 'ada' },
} satisfies Json;

const changed = (change: Readonly<Record<string, Draft>>, from: Json | undefined = stored) =>
  ({ ...(draftOf(field, from) as Record<string, Draft>), ...change }) satisfies Draft;

describe('a draft', () => {
  it('of stored settings gives the same settings, without masks and fields that the server sets', () => {
    const { password: _, headers: __, until: ___, ...kept } = stored;
    expect(settingOf(field, draftOf(field, stored))).toEqual(kept);
    expect(faultsOf(field, draftOf(field, stored))).toEqual([]);
  });

  it('of new settings begins with the defaults', () => {
    expect(settingOf(field, emptyDraft(field))).toEqual({ port: 5, tls: true });
  });

  it('does not put defaults into stored settings that lack them', () => {
    expect(settingOf(field, draftOf(field, { url: 'https://a.example' }))).toEqual({
      url: 'https://a.example',
      tls: true,
    });
  });

  it('replaces a secret, keeps it or removes it', () => {
    const states = changed({
      password: { state: 'stated', value: 'another' },
      headers: { state: 'removed', value: [] },
    });
    expect(settingOf(field, states)).toMatchObject({ password: 'another', headers: null });
    const pairs = changed({
      headers: {
        state: 'stated',
        value: [
          { name: 'x-a', value: 'b' },
          { name: '', value: '' },
        ],
      },
    });
    expect(settingOf(field, pairs)).toMatchObject({ headers: { 'x-a': 'b' } });
  });

  it('keeps the input of the choice that is not selected', () => {
    const { way } = changed({
      way: {
        chosen: '0',
        values: [
          { kind: '', key: 'k' },
          { kind: '', user: 'ada' },
        ],
      },
    });
    expect(settingOf(field, changed({ way: way ?? '' }))).toMatchObject({ way: { kind: 'key', key: 'k' } });
    expect(way).toMatchObject({ values: [{}, { user: 'ada' }] });
  });
});

describe('faultsOf', () => {
  it('names missing fields and fields out of bounds, by their place in the form', () => {
    const draft = changed({
      url: 'ftp://a',
      port: 12,
      password: { state: 'stated', value: 'abc' },
      brokers: ['a'],
      actions: [
        { action: '', mapping: '{' },
        { action: 'x', mapping: '[]' },
      ],
    });
    expect(faultsOf(field, draft, 'settings')).toEqual([
      { path: 'settings.url', message: 'must have a form such as https://a.example' },
      { path: 'settings.password.value', message: 'must have at least 4 characters' },
      { path: 'settings.port', message: 'must be at most 9' },
      { path: 'settings.brokers', message: '"a" does not have the form that is needed' },
      { path: 'settings.actions.0.action', message: 'is required' },
      { path: 'settings.actions.0.mapping', message: 'is not valid JSON' },
      { path: 'settings.actions.1.mapping', message: 'must be a JSON object' },
    ]);
  });

  it('requires the required fields, and a secret too when none is stored', () => {
    expect(faultsOf(field, emptyDraft(field)).map(({ path }) => path)).toEqual(['url', 'password.value']);
  });
});

describe('draftPathOf', () => {
  const at = (pointer: string) => draftPathOf(field, pointer.split('/'), draftOf(field, stored), 'settings');

  it('finds the input of a fault', () => {
    expect(at('url')).toBe('settings.url');
    expect(at('password')).toBe('settings.password.value');
    expect(at('headers/x-a')).toBe('settings.headers.value');
    expect(at('actions/0/mapping/a')).toBe('settings.actions.0.mapping');
    expect(at('way/user')).toBe('settings.way.values.1.user');
    expect(at('unknown')).toBe('settings');
  });
});
