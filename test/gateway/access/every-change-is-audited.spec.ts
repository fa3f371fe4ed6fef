import {
  type AuditEntry,
  type AuditedCalls,
  applyWithAudit,
  auditEntriesOf,
  auditEntryOfCalls,
  CatalogState,
  type Fact,
  type ProfileOperation,
  TOPIC,
} from '@tributary/core';
import { beforeAll, expect, it } from 'vitest';
import { deadDelivery } from '../../helpers/dead-delivery.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { openProfiles, sendInto } from '../../helpers/profile-client.ts';
import {
  type DescribedOperation,
  describedOperations,
  isCreation,
  openSetup,
  type Setup,
  tried,
  turnOf,
} from '../api/filled-operations.ts';
import { suiteGateway } from '../suite-gateway.ts';

/** Calls by other methods than GET that leave no entry, with the reason. */
const EXCEPTIONS: readonly (readonly [reason: string, operations: RegExp])[] = [
  [
    'they send events, which are listed and counted as events',
    /^(send(Track|Identify|Page|Group|Batch)|sdk.*|receiveWebhook)$/,
  ],
  ['they only read', /^search[A-Z]/],
  ['they try something out and change nothing', /^(infer|try|dryRun|preview)[A-Z]/],
  ['they only load earlier what is loaded anyway', /^loadWarehouse$/],
  ['they only repeat a mail, within a share of mails', /^send(Organization)?ConfirmationLink$/],
];

/** Calls that the walk cannot make as they are described; below they are made with what they need. */
const BELOW = [
  'splitProfile',
  'runDestinationHook',
  'redriveDelivery',
  'discardDelivery',
  'redriveDeliveries',
  'discardDeliveries',
];

const MUTATING = ['post', 'put', 'patch', 'delete'];

const test = await suiteGateway();
let operations: readonly DescribedOperation[];
let place: Setup;
let other: Setup;
beforeAll(async () => {
  operations = (await describedOperations(test)).filter(({ method }) => MUTATING.includes(method));
  place = await openSetup(test, 'owner@example.com');
  other = await openSetup(test, 'other@example.com');
});

/** The entries of the audit log, as the stages make them. */
async function audited(): Promise<readonly AuditEntry[]> {
  const read = async (topic: string) => {
    const { entries } = await test.dependencies.log.read(topic, 0, 0, { maxBytes: 1e8 });
    return entries;
  };
  const state = new CatalogState();
  const facts = (await read(TOPIC.catalog)).flatMap(({ value, position }) =>
    applyWithAudit(state, JSON.parse(value) as Fact, position.offset),
  );
  const others = (await read(TOPIC.profileOperations)).flatMap(({ value }) => {
    const record = JSON.parse(value) as ProfileOperation | AuditedCalls;
    return 'kind' in record ? [auditEntryOfCalls(record, state)] : auditEntriesOf(record, state);
  });
  return [...facts, ...others];
}

/** Other values than are stored: an unchanged resource gets no new version. */
function changed({ method, path }: DescribedOperation) {
  const isOfOrganization = path.includes('/organizations/');
  const role = {
    put: isOfOrganization ? 'admin' : 'editor',
    patch: isOfOrganization ? 'member' : 'viewer',
  }[method];
  return (name: string, value: unknown) => {
    if (role === undefined) return value;
    if (name === 'role') return role;
    if (name === 'default_country') return method === 'put' ? 'AT' : 'DE';
    return name === 'name' && typeof value === 'string' ? `${value} by ${method}` : value;
  };
}

/** Members of the workspace go before those of the organization, with whom they would go. */
function turn(call: DescribedOperation): number {
  return call.operation.operationId === 'removeWorkspaceMember' ? 1 : turnOf(call);
}

const isException = ({ operation: { operationId } }: DescribedOperation) =>
  EXCEPTIONS.some(([, names]) => names.test(operationId));

it('every operation that changes something leaves an audit entry', async () => {
  const requests = new Map<string, string>();
  const faults: string[] = [];
  for (const call of operations.toSorted((left, right) => turn(left) - turn(right))) {
    const { operationId } = call.operation;
    if (isException(call) || BELOW.includes(operationId)) continue;
    const { status, requestId, text } = await tried(
      test,
      call,
      isCreation(call) ? other : place,
      changed(call),
    );
    if (status >= 300) faults.push(`${operationId} ${status} ${text.slice(0, 200)}`);
    else requests.set(requestId, operationId);
  }
  expect(faults).toEqual([]);
  expect(requests.size).toBeGreaterThan(45);
  const seen = new Set((await audited()).map(({ request_id }) => request_id));
  expect([...requests].flatMap(([id, operationId]) => (seen.has(id) ? [] : [operationId]))).toEqual([]);
});

it('each exception names operations that exist', () => {
  for (const [, names] of EXCEPTIONS)
    expect(operations.some(({ operation }) => names.test(operation.operationId))).toBe(true);
  const ids = operations.map(({ operation }) => operation.operationId);
  for (const operationId of BELOW) expect(ids).toContain(operationId);
});

it('redrives and discards of deliveries left none: now one entry of each kind, with what they changed', async () => {
  const owner = await test.openWorkspace('redrives@example.com');
  const workspace_id = String(owner.workspaceId);
  const { id: destination_id } = await owner.ok<{ id: string }>('POST', './destinations', {
    name: 'CRM',
    type: 'webhook',
    settings: { url: 'https://crm.example.com' },
  });
  const dead = Array.from({ length: 4 }, () =>
    deadDelivery(test.clock.now(), {}, { workspace_id, destination_id, rule_id: destination_id }),
  );
  await test.dependencies.history.put(dead);
  const [first, second] = dead;
  for (const path of [`./deliveries/${first?.id}/redrive`, `./deliveries/${second?.id}/discard`])
    expect((await owner.call('POST', path)).status).toBe(202);
  for (const path of ['./deliveries/redrive', './deliveries/discard'])
    expect((await owner.call('POST', path, { destination_id })).status).toBe(202);
  const entries = (await audited()).filter(
    ({ scope_id, entity }) => scope_id === workspace_id && entity.type === 'delivery',
  );
  expect(entries.map(({ action, actor }) => [action, actor.email])).toEqual([
    ['redriven', 'redrives@example.com'],
    ['discarded', 'redrives@example.com'],
  ]);
});

it('a hook leaves entries of the changes of its destination', async () => {
  const owner = await test.openWorkspace('hooks@example.com');
  const { id } = await owner.ok<{ id: string }>('POST', './destinations', {
    name: 'Braze',
    type: 'segment-braze',
    settings: {
      api_key: 'key',
      app_id: 'app',
      endpoint: 'https://rest.fra-01.braze.eu',
      subscriptions: [{ action: 'upsertCatalogItem', trigger: 'type = "track"', enabled: false }],
    },
  });
  // Makes no request.
  const inputs = { operation: 'select', selected_catalog_name: 'teas' };
  const hook = { subscription: 0, hook: 'onMappingSave', inputs };
  expect((await owner.call('POST', `./destinations/${id}/hook`, hook)).status).toBe(200);
  const actions = (await audited()).filter(({ entity }) => entity.id === id).map(({ action }) => action);
  expect(actions).toEqual(['created', 'updated', 'updated']);
});

it('a split leaves an entry', async () => {
  const owner = await test.openWorkspace('splits@example.com');
  const { client, id } = await openProfiles(owner, owner.workspaceId, sendInto(test.app));
  const [one, two] = [
    await client.write({ AdId: 'one' }),
    await client.write({ AdId: 'two', email: 'two@example.com' }),
  ];
  await client.write({ AdId: 'one', email: 'two@example.com' });
  for (const ucid of [one.ucid, two.ucid]) await client.call('/_split', { region: 'eu', ucid });
  const actions = (await audited()).filter(({ scope_id }) => scope_id === id).map(({ action }) => action);
  expect(actions).toContain('split');
});

it('300 profile writes of a key are one entry, however many a caller makes, and its sums follow', async () => {
  const sums = await openTestGateway();
  const owner = await sums.openWorkspace('writes@example.com');
  const { client, keyId } = await openProfiles(owner, owner.workspaceId, sendInto(sums.app));
  for (let n = 0; n < 300; n++) await client.write({ AdId: `written-${n % 30}` });
  const records: AuditedCalls[] = [];
  const { log } = sums.dependencies;
  const append = log.append.bind(log);
  log.append = async (topic, entries) => {
    if (topic === TOPIC.profileOperations)
      records.push(...entries.map(({ value }) => JSON.parse(value) as AuditedCalls));
    return append(topic, entries);
  };
  const { entries } = await log.read(TOPIC.profileOperations, 0, 0, { maxBytes: 1e8 });
  expect(entries).toHaveLength(1);
  await sums.close();
  expect(records).toMatchObject([{ name: 'written', by: `key:${keyId}`, calls: 300, changed: 300 }]);
  expect(records[0]?.ids).toHaveLength(20);
});
