import { newId, TOPIC } from '@tributary/core';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { countAccepted } from '../../helpers/counts.ts';
import { openTestGateway, refusedFor } from '../../helpers/gateway.ts';
import { putJudged, trackEvent } from '../../helpers/judged-events.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
});

const order = {
  name: 'Orders',
  event_type: 'track',
  event_name: 'Order Placed',
  description: 'Paid.',
  schema_definition: {
    'x-labels': { team: 'checkout' },
    properties: { id: { type: 'string', required: true } },
  },
  enforcement_mode: 'block',
  undeclared_fields: 'warn',
};
const home = { ...order, name: 'Home', event_type: 'page', event_name: 'Home', schema_definition: {} };

interface Imported {
  readonly created: number;
  readonly updated: number;
  readonly unchanged: number;
  readonly archived: number;
  readonly version: number;
  readonly changes: readonly {
    readonly action: string;
    readonly event_name: string;
    readonly path: string | null;
  }[];
  readonly notes: readonly object[];
}
interface Plan {
  readonly version: number;
  readonly contracts: readonly { readonly event_name: string; readonly version: number }[];
}

const put = (contracts: readonly object[], query = '') =>
  owner.ok<Imported>('PUT', `./tracking-plan${query}`, { contracts });
const plan = (query = '') => owner.ok<Plan>('GET', `./tracking-plan${query}`);

/** A call with a text as its body or answer. */
async function text(method: 'GET' | 'PUT', path: string, payload?: string) {
  const { statusCode, headers, body } = await test.app.inject({
    method,
    url: `/api/v1/workspaces/${owner.workspaceId}/${path}`,
    headers: {
      authorization: `Bearer ${owner.token}`,
      'x-workspace-id': String(owner.workspaceId),
      ...(payload === undefined ? {} : { 'content-type': 'text/csv' }),
    },
    ...(payload === undefined ? {} : { payload }),
  });
  return { status: statusCode, type: headers['content-type'], body };
}

describe('the plan of a workspace', () => {
  it('is imported and exported as one document, and importing an export changes nothing', async () => {
    expect(await plan()).toMatchObject({ version: 0, contracts: [] });
    expect(await put([order, home])).toMatchObject({
      created: 2,
      updated: 0,
      unchanged: 0,
      archived: 0,
      version: 2,
    });
    const exported = await plan();
    expect(exported).toMatchObject({
      name: 'Test',
      version: 2,
      contracts: [
        { ...order, version: 1 },
        { ...home, version: 1 },
      ],
    });
    expect(await owner.ok<Imported>('PUT', './tracking-plan', exported)).toMatchObject({
      unchanged: 2,
      version: 2,
    });
    expect(await plan()).toEqual(exported);
    const other = await test.openWorkspace('other@example.com');
    await other.ok('PUT', './tracking-plan', exported);
    expect(await other.ok('GET', './tracking-plan')).toEqual(exported);
  });

  it('is only compared by a dry run: the response lists contracts to create, change and keep', async () => {
    await put([order, home]);
    const wanted = [
      { ...order, description: 'New.' },
      { ...home, event_name: 'Start', name: 'Start' },
    ];
    const dry = await put(wanted, '?dry_run=true&missing=archive');
    expect(dry).toMatchObject({
      dry_run: true,
      created: 1,
      updated: 1,
      unchanged: 0,
      archived: 1,
      version: 2,
    });
    expect(dry.changes).toEqual([
      expect.objectContaining({
        action: 'updated',
        event_name: 'Order Placed',
        path: '/contracts/0',
        fields: ['description'],
        version: 1,
      }),
      expect.objectContaining({
        action: 'created',
        event_name: 'Start',
        path: '/contracts/1',
        contract_id: null,
        version: null,
      }),
      expect.objectContaining({ action: 'archived', event_name: 'Home', path: null }),
    ]);
    expect((await plan()).contracts).toMatchObject([order, home]);
    const done = await put(wanted, '?missing=archive');
    expect(done.changes.map(({ action }) => action)).toEqual(['updated', 'created', 'archived']);
    expect(done.version).toBe(5);
    expect((await plan()).contracts.map(({ event_name, version }) => [event_name, version])).toEqual([
      ['Order Placed', 2],
      ['Start', 1],
    ]);
  });

  it.each(['segment', 'segment-csv', 'rudderstack', 'rudderstack-csv'])(
    'has the same content in the format %s',
    async (format) => {
      await put([order, home]);
      const { body, type } = await text('GET', `tracking-plan?format=${format}`);
      const isCsv = format.endsWith('-csv');
      expect(type).toBe(isCsv ? 'text/csv; charset=utf-8' : 'application/json; charset=utf-8');
      const back = isCsv
        ? JSON.parse((await text('PUT', 'tracking-plan', body)).body)
        : await owner.ok('PUT', './tracking-plan', JSON.parse(body));
      expect(back).toMatchObject({ created: 0, updated: 0, unchanged: 2 });
    },
  );

  it('is refused as a whole, by path or line, and nothing of it is stored', async () => {
    const refused = await owner.call<{ details: readonly object[] }>('PUT', './tracking-plan', {
      contracts: [
        order,
        { ...home, schema_definition: { properties: { a: { type: 'text' } } } },
        { ...home, event_name: 'B', name: '\n' },
      ],
    });
    expect(refused).toMatchObject(refusedFor('/contracts/2/name'));
    const schema = await owner.call<object>('PUT', './tracking-plan', {
      contracts: [order, { ...home, schema_definition: { properties: { a: { type: 'text' } } } }],
    });
    expect(schema).toMatchObject(refusedFor('/contracts/1/schema_definition/properties/a/type'));
    const csv = await text(
      'PUT',
      'tracking-plan',
      'Event Name,Property Name,Data Type\nA,p,string\nA,p.q,text\n',
    );
    expect([csv.status, JSON.parse(csv.body)]).toMatchObject([
      400,
      { details: [{ path: 'line 2', message: expect.stringContaining('its data type must be object') }] },
    ]);
    expect(await plan()).toMatchObject({ contracts: [] });
    const manyProperties = Object.fromEntries(Array.from({ length: 1_100 }, (_, at) => [`p${at}`, {}]));
    const faulty = {
      key: 'A',
      type: 'TRACK',
      jsonSchema: { properties: { properties: { type: 'object', properties: manyProperties } } },
    };
    expect(await owner.call('PUT', './tracking-plan', { rules: [faulty] })).toMatchObject({
      status: 400,
      body: {
        details: [{ path: '/rules/0', message: expect.stringContaining('the schema of its properties') }],
      },
    });
  });

  it('of which one property cannot be said was refused as a whole: it costs that property, with a note', async () => {
    const jsonSchema = {
      $schema: 'https://json-schema.org/draft/2019-09/schema',
      properties: {
        properties: { properties: { a: { type: 'any' }, b: { type: 'string', pattern: '(?!x)' } } },
      },
    };
    const rules = [
      { key: 'A', type: 'TRACK', jsonSchema },
      { key: 'B', type: 'ANY', jsonSchema: {} },
    ];
    const imported = await owner.ok('PUT', './tracking-plan', { rules });
    expect(imported).toMatchObject({
      created: 1,
      notes: [
        {
          path: '/rules/0/jsonSchema',
          message: expect.stringMatching('^`type` of `a` is left out: it must'),
        },
        {
          path: '/rules/0/jsonSchema',
          message: expect.stringMatching('^`pattern` of `b` is left out: it must'),
        },
        { path: '/rules/1', message: expect.stringContaining('its type "any" is none of') },
      ],
    });
    expect(await plan()).toMatchObject({
      contracts: [{ event_name: 'A', schema_definition: { properties: { a: {}, b: { type: 'string' } } } }],
    });
    expect(await owner.ok('PUT', './tracking-plan', { rules })).toMatchObject({ unchanged: 1, updated: 0 });
  });

  it('has a version, which an import can require', async () => {
    await put([order]);
    const read = await owner.call('GET', './tracking-plan');
    expect(read.headers.etag).toBe('"1"');
    const change = { contracts: [{ ...order, description: 'Mine.' }] };
    const first = await owner.call('PUT', './tracking-plan', change, { 'if-match': '"1"' });
    expect([first.status, first.headers.etag]).toEqual([200, '"2"']);
    expect(await owner.call('PUT', './tracking-plan', change, { 'if-match': '"1"' })).toMatchObject({
      status: 412,
    });
  });

  it('is grouped by labels', async () => {
    await put([order, home]);
    expect((await plan('?label=team:checkout')).contracts.map(({ event_name }) => event_name)).toEqual([
      'Order Placed',
    ]);
    expect((await plan('?label=team')).contracts).toHaveLength(1);
    expect(await put([], '?missing=archive&label=team:checkout')).toMatchObject({ archived: 1 });
    expect((await plan()).contracts.map(({ event_name }) => event_name)).toEqual(['Home']);
  });

  it('is completed by repeating an import that was refused in the middle, and the refusal states its progress', async () => {
    const limited = await openTestGateway({ env: { TRIBUTARY_QUOTA_CONTRACTS: '2' } });
    try {
      const client = await limited.openWorkspace();
      const three = { contracts: [order, home, { ...home, name: 'C', event_name: 'C' }] };
      expect(await client.call('PUT', './tracking-plan', three)).toMatchObject({
        status: 409,
        body: { error: 'quota exceeded', applied: 2, of: 3 },
      });
      const [first] = await client.ok<readonly { id: string }[]>('GET', './event-contracts');
      await client.ok('DELETE', `./event-contracts/${first?.id}`);
      expect(
        await client.call('PUT', './tracking-plan', { contracts: [order, three.contracts[2]] }),
      ).toMatchObject({
        status: 200,
        body: { created: 1, unchanged: 1 },
      });
    } finally {
      await limited.close();
    }
  });
});

describe('a plan compared with received events', () => {
  const compare = (query = '') =>
    owner.ok<{ readonly events: readonly object[]; readonly coverage: object; readonly events_cut: boolean }>(
      'GET',
      `./tracking-plan/comparison${query}`,
    );

  it('has events and fields that were never received, and those that no contract declares', async () => {
    await put([
      { ...order, schema_definition: { properties: { id: { type: 'string', required: true }, coupon: {} } } },
      home,
    ]);
    const event = (fields: object) => trackEvent(String(owner.workspaceId), fields);
    await putJudged(test.dependencies.log, [
      event({ event: 'Order Placed', properties: { id: 'a', extra: 1 } }),
      event({ event: 'Typo', properties: {} }),
    ]);
    await putJudged(
      test.dependencies.log,
      [event({ event: 'Order Placed', properties: { id: 5 } })],
      TOPIC.rejected,
    );
    const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
    const workspaceId = String(owner.workspaceId);
    await countAccepted(test.dependencies.counters, [
      { workspaceId, name: 'Order Placed', minute: hour, count: 9 },
    ]);
    const { id } = (
      await owner.ok<readonly { id: string; event_name: string }[]>('GET', './event-contracts')
    ).find(({ event_name }) => event_name === 'Order Placed') ?? { id: '' };
    await test.dependencies.history.put([
      {
        kind: 'violation',
        id: newId(),
        workspaceId: String(owner.workspaceId),
        at: Date.now(),
        version: 1,
        facets: { contract_id: id, kind: 'type' },
        body: { path: '/id' },
      },
    ]);
    const found = await compare();
    expect(found).toMatchObject({
      events_cut: false,
      hours: 24,
      coverage: { complete: true, stopped_by: null },
    });
    expect(found.events).toMatchObject([
      { event_name: 'Typo', state: 'undeclared', contract_id: null, sampled: 1, violations: null },
      { event_name: 'Home', state: 'never_seen', sampled: 0, accepted: 0 },
      {
        event_name: 'Order Placed',
        state: 'seen',
        contract_id: id,
        contract_version: 1,
        accepted: 9,
        sampled: 2,
        violations: 1,
        fields: [
          { path: '/extra', state: 'undeclared', seen: 1, of: 2 },
          { path: '/coupon', state: 'never_seen', required: false },
          { path: '/id', state: 'seen', required: true, seen: 2, of: 2, types: { string: 1, integer: 1 } },
        ],
      },
    ]);
  });

  it('reads at most the requested events', async () => {
    await putJudged(
      test.dependencies.log,
      Array.from({ length: 9 }, () => trackEvent(String(owner.workspaceId))),
    );
    expect(await compare('?events=4')).toMatchObject({
      events: [{ sampled: 4 }],
      coverage: { stopped_by: 'events' },
    });
  });
});
