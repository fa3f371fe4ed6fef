import { applyWithAudit, CatalogState, type Fact, newId, TOPIC } from '@tributary/core';
import { beforeAll, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

interface Shown {
  readonly id: string;
  readonly at: string;
  readonly action: string;
  readonly actor: { readonly type: string; readonly id: string; readonly email: string | null };
  readonly entity: { readonly type: string; readonly id: string; readonly name: string | null };
  readonly before: object | null;
  readonly after: object | null;
  readonly request_id: string | null;
}

const test = await suiteGateway();
let owner: Client;
let sourceId: string;
let keyId: string;
let changedBy: string;
beforeAll(async () => {
  owner = await test.openWorkspace('owner@example.com');
  const key = await owner.ok<{ id: string; key: string }>('POST', './api-keys', {
    name: 'CI',
    role: 'editor',
  });
  keyId = key.id;
  const server = owner.with({ token: key.key });
  test.clock.pass(1_000);
  sourceId = (await owner.ok<{ id: string }>('POST', './sources', { name: 'Shop', type: 'web' })).id;
  test.clock.pass(1_000);
  const changed = await server.call('PUT', `./sources/${sourceId}`, { name: 'Store', type: 'web' });
  changedBy = String(changed.headers['x-request-id']);
  test.clock.pass(1_000);
  await owner.ok('DELETE', `./sources/${sourceId}`);
  await writeAuditLog();
});

/** The entries of the audit stage for the catalog. */
async function writeAuditLog(): Promise<void> {
  const { log, history } = test.dependencies;
  const { entries } = await log.read(TOPIC.catalog, 0, 0);
  const state = new CatalogState();
  for (const { value, position } of entries) {
    const told = applyWithAudit(state, JSON.parse(value) as Fact, position.offset);
    await history.put(
      told.map((entry) => ({
        kind: 'audit',
        id: entry.id,
        workspaceId: entry.scope_id,
        at: Date.parse(entry.at),
        version: 1,
        facets: {
          actor: entry.actor.id,
          entity_type: entry.entity.type,
          entity_id: entry.entity.id,
          action: entry.action,
        },
        body: JSON.parse(JSON.stringify(entry)),
      })),
    );
  }
}

const list = (query = '') => owner.ok<Shown[]>('GET', `./audit-log${query}`);
const actions = async (query: string) =>
  (await list(query)).map(({ action, entity }) => `${entity.type} ${action}`);

it('entries have actor, action, time and origin, newest first', async () => {
  const [deleted, updated, created, key, workspace, ...rest] = await list();
  expect(rest).toEqual([]);
  expect(updated).toEqual({
    id: expect.any(String),
    at: expect.any(String),
    action: 'updated',
    actor: { type: 'api_key', id: keyId, email: null, key_prefix: expect.stringMatching(/^trb_api_/) },
    entity: { type: 'source', id: sourceId, name: 'Store' },
    before: expect.objectContaining({ name: 'Shop', version: 1 }),
    after: expect.objectContaining({ name: 'Store', version: 2 }),
    address: '127.0.0.1',
    request_id: changedBy,
  });
  expect(deleted).toMatchObject({ action: 'deleted', before: { name: 'Store' }, after: null });
  expect(created).toMatchObject({
    action: 'created',
    actor: { type: 'account', email: 'owner@example.com', key_prefix: null },
    before: null,
  });
  expect(key).toMatchObject({ entity: { type: 'api_key', id: keyId }, after: { hash: '***', name: 'CI' } });
  expect(workspace).toMatchObject({ entity: { type: 'workspace', id: owner.workspaceId } });
});

it('entries are filtered by actor, entity, action and time, and by all of them together', async () => {
  const all = await list();
  expect(await actions(`?actor=${keyId.toUpperCase()}`)).toEqual(['source updated']);
  expect(await actions('?entity_type=api_key')).toEqual(['api_key created']);
  expect(await actions(`?entity_id=${sourceId}`)).toHaveLength(3);
  expect(await actions('?action=created')).toHaveLength(3);
  expect(await actions('?action=created&entity_type=source')).toEqual(['source created']);
  const [deleted, updated] = all;
  expect(await actions(`?since=${updated?.at}&until=${deleted?.at}`)).toEqual(['source updated']);
  const everything = `actor=${keyId}&entity_type=source&entity_id=${sourceId}&action=updated&since=${updated?.at}`;
  expect(await actions(`?${everything}`)).toEqual(['source updated']);
  expect(await actions(`?${everything}&until=${updated?.at}`)).toEqual([]);
});

it('only admins read the audit log, each of their own workspace', async () => {
  for (const role of ['viewer', 'editor'] as const)
    expect((await (await owner.withApiKey(role)).call('GET', './audit-log')).status).toBe(403);
  expect((await (await owner.withApiKey('admin')).call('GET', './audit-log')).status).toBe(200);
  const other = await test.openWorkspace('other@example.com');
  expect(await other.ok('GET', './audit-log')).toEqual([]);
  expect((await other.with({ workspaceId: newId() }).call('GET', './audit-log')).status).toBe(403);
});

it('of an archived workspace could be read by nobody: its admins read it, without a key', async () => {
  const client = await test.openWorkspace('archives@example.com');
  const key = await client.withApiKey('admin');
  await client.ok('DELETE', `/workspaces/${client.workspaceId}`);
  expect((await client.call('GET', './audit-log')).status).toBe(200);
  expect((await key.call('GET', './audit-log')).status).not.toBe(200);
  const stranger = (await test.openWorkspace('stranger@example.com')).with({
    workspaceId: client.workspaceId ?? '',
  });
  expect((await stranger.call('GET', './audit-log')).status).toBe(403);
});
