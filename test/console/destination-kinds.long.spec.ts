import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Schemas } from '../../console/src/api/client.ts';
import { bodyOf, rootOf, valuesOf } from '../../console/src/pages/destinations/destination-values.ts';
import {
  type Draft,
  emptyDraft,
  faultsOf,
  MASK,
  settingOf,
} from '../../console/src/pages/destinations/settings/drafts.ts';
import {
  type Field,
  fieldOf,
  type NamedField,
} from '../../console/src/pages/destinations/settings/fields.ts';
import type { Client } from '../helpers/client.ts';
import { openTestGateway, type TestGateway } from '../helpers/gateway.ts';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });

/** Settings that samples do not fit, and one of two that must be stated. */
const NEEDED: Readonly<Record<string, object>> = {
  lake: { folder: 'kinds' },
  'warehouse-bigquery': {
    service_account_key: JSON.stringify({
      type: 'service_account',
      client_email: 'loader@project-1.example.com',
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    }),
  },
  'warehouse-snowflake': { password: 'abcdefgh' },
};

/** The actions of each kind are read first. */
const WITHIN_MS = 600_000;

let gateway: TestGateway;
let owner: Client;
let kinds: readonly Schemas['DestinationTypeDetails'][];
beforeAll(async () => {
  gateway = await openTestGateway();
  owner = await gateway.openWorkspace();
  const listed = await owner.ok<readonly { readonly type: string }[]>('GET', './destination-types');
  const read: Schemas['DestinationTypeDetails'][] = [];
  for (const { type } of listed) read.push(await owner.ok('GET', `./destination-types/${type}`));
  kinds = read;
}, WITHIN_MS);
afterAll(() => gateway.close());

it('every setting of every kind has a field that is no JSON, but for free objects', () => {
  const left = kinds.flatMap(({ type, settings_schema }) =>
    jsonFields(fieldOf(settings_schema)).map((path) => `${type} ${path}`),
  );
  const mappings = kinds.flatMap(({ type, settings_schema }) =>
    ['subscriptions', 'actions']
      .filter((name) => name in (settings_schema as { readonly properties: object }).properties)
      .map((name) => `${type} ${name}.mapping`),
  );
  expect(left).toEqual(mappings);
});

it(
  'a filled form of any kind is accepted, and saved again without its secrets it keeps them',
  async () => {
    expect(kinds.length).toBeGreaterThan(10);
    for (const kind of kinds) {
      const { type, secrets } = kind;
      const root = rootOf(kind);
      const draft = filled(root);
      expect(faultsOf(root, draft), type).toEqual([]);
      const body = { name: type, type, settings: { ...Object(settingOf(root, draft)), ...NEEDED[type] } };
      const made = await owner.ok<Schemas['Destination']>('POST', './destinations', body);
      const stored = await owner.ok<Schemas['Destination']>('GET', `./destinations/${made.id}`);
      const again = bodyOf(root, type, valuesOf(root, stored), stored);
      const saved = await owner.ok<Schemas['Destination']>('PUT', `./destinations/${made.id}`, again);
      expect(saved.settings, type).toEqual(stored.settings);
      for (const secret of secrets)
        if (stored.settings[secret] !== undefined) expect(stored.settings[secret]).toBe(MASK);
    }
  },
  WITHIN_MS,
);

it('an empty form names what each kind requires', () => {
  for (const { type, settings_schema } of kinds) {
    const { required = [] } = settings_schema as { readonly required?: readonly string[] };
    const root = fieldOf(settings_schema);
    const paths = faultsOf(root, emptyDraft(root)).map(({ path }) => path.split('.')[0]);
    const withoutDefault = required.filter((name) => valueOfDefault(root, name) === undefined);
    expect(paths, type).toEqual(withoutDefault);
  }
});

function jsonFields(field: Field, path = ''): readonly string[] {
  const below = (name: string) => (path === '' ? name : `${path}.${name}`);
  if (field.kind === 'json') return [path];
  if (field.kind === 'group') return field.fields.flatMap((inner) => jsonFields(inner, below(inner.name)));
  return field.kind === 'list' ? jsonFields(field.item, path) : [];
}

/** A draft in which everything that is required has a value, and each list of objects one item. */
function filled(field: Field): Draft {
  if (field.kind !== 'group') return emptyDraft(field);
  return Object.fromEntries(field.fields.map((inner) => [inner.name, sampleOf(inner)]));
}

function sampleOf(field: NamedField): Draft {
  const empty = emptyDraft(field);
  if (field.readOnly || !field.required || field.default !== undefined) return empty;
  const { example } = field;
  const sample = (): Draft => {
    if (field.kind === 'texts' && Array.isArray(example)) return example.map(String);
    if (field.kind === 'choice') return String(field.options[0]);
    if (field.kind === 'number') return 7;
    return typeof example === 'string' ? example : 'abcdefgh';
  };
  return field.secret ? { stored: false, state: 'stated', value: sample() } : sample();
}

function valueOfDefault(root: Field, name: string): unknown {
  return root.kind === 'group' ? root.fields.find((field) => field.name === name)?.default : undefined;
}
