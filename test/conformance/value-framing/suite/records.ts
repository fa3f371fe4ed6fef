import {
  type CanonicalEvent,
  type Contract,
  createContractEvaluator,
  type Draft,
  ENVIRONMENTS,
  EVENT_TYPES,
  HEADER,
  type JsonObject,
  type OutputRecord,
  publishProfileChanges,
  TOPIC,
} from '@tributary/core';
import fc from 'fast-check';
import { entryOf, setUp } from '../../../stages/harness.ts';
import { WORKSPACE } from '../../../stages/memory-catalog.ts';

const object = fc
  .dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 })
  .map((value): JsonObject => JSON.parse(JSON.stringify(value)));
const id = fc.string({ minLength: 1 });

/** Any event that the gateway can create. */
export const events: fc.Arbitrary<CanonicalEvent> = fc.record(
  {
    message_id: id,
    type: fc.constantFrom(...EVENT_TYPES),
    event: fc.string(),
    name: fc.string(),
    group_id: fc.string(),
    user_id: id,
    anonymous_id: id,
    properties: object,
    traits: object,
    context: object,
    timestamp: fc.constantFrom('2026-01-01', '2026-01-01T10:00:00+02:00'),
    received_at: fc.constant('2026-01-01T10:00:00.000Z'),
    environment: fc.constantFrom(...ENVIRONMENTS),
    workspace_id: fc.constant(WORKSPACE),
    source_id: id,
  },
  {
    requiredKeys: ['message_id', 'type', 'timestamp', 'received_at', 'environment', 'workspace_id'],
  },
);

const CONTRACT: Draft<Contract> = {
  id: '00000000-0000-4000-8000-0000000000c1',
  workspace_id: WORKSPACE,
  name: 'any',
  event_type: 'track',
  event_name: '',
  description: null,
  schema_definition: { properties: { total: { type: 'number', required: true } } },
  enforcement_mode: 'block',
  undeclared_fields: 'omit',
  status: 'active',
  created_by: 'a',
};

/**
 * The output records of the validate stage for events under contracts of every type that require a number
 * `total`.
 */
export async function validated(
  received: readonly CanonicalEvent[],
  terms: Partial<Pick<Contract, 'enforcement_mode' | 'undeclared_fields'>> = {},
): Promise<readonly OutputRecord[]> {
  const { run, catalog, world } = setUp();
  for (const [index, type] of EVENT_TYPES.entries()) {
    const contract = `00000000-0000-4000-8000-0000000000c${index}`;
    catalog.add('contract.created', contract, { ...CONTRACT, ...terms, id: contract, event_type: type });
  }
  const { evaluate } = createContractEvaluator();
  world.evaluate = (event) => {
    const contract = catalog.state.contractAt(WORKSPACE, event.type, '', catalog.position);
    if (contract === undefined) throw new Error(`no contract for ${event.type}`);
    return evaluate(contract, event);
  };
  const headers = { [HEADER.catalogPosition]: String(catalog.position) };
  return run(
    'validate',
    received.map((event, offset) => entryOf('events.production', offset, event, headers)),
  );
}

/** Published profile changes: one of each kind, and one of a profile that is too large to publish in full. */
export async function profileChanges(): Promise<readonly string[]> {
  const scope = { org: 1, region: 'eu' };
  const profile = {
    ...scope,
    ucid: 'u1',
    created_ts: 1,
    updated_ts: 2,
    version: 3,
    identities: [
      { type: 'email_sha256_lowercase', value: 'ab', ts: 1 },
      { type: 'user_id', value: 'u', ts: 1 },
    ],
    attributes: [
      { path: ['traits', 'x'], value: [1, null], ts: 1 },
      { path: ['tier'], value: 'gold', ts: 1 },
    ],
    preferences: [{ name: 'news', value: { type: 'news', value: 'yes' }, ts: 1 }],
    consents: [{ name: 'c', value: 'yes', ts: 1 }],
    linked: ['u2'],
  };
  const change = { ...scope, ucid: 'u1', version: 3, at: 2, linked: [] };
  const large = { ...profile, attributes: [{ path: ['x'], value: 'x'.repeat(2 ** 20), ts: 1 }] };
  const values: string[] = [];
  const publish = publishProfileChanges({
    append: async (topic, entries) => {
      if (topic === TOPIC.profileChanges) values.push(...entries.map(({ value }) => value));
      return [];
    },
  });
  await publish([
    { ...change, kind: 'written', profile },
    { ...change, kind: 'merged', linked: ['u2'], profile },
    { ...change, kind: 'written', profile: large },
    { ...change, kind: 'deleted', linked: ['u2'] },
  ]);
  return values;
}
