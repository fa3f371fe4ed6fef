import { randomUUID } from 'node:crypto';
import { newId } from '@tributary/core';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
});

interface Contract {
  readonly id: string;
  readonly version: number;
  readonly status: string;
}

const schema = { properties: { amount: { type: 'number', required: true } } };
const paid = { name: 'Paid', event_type: 'track', event_name: 'Paid', schema_definition: schema };
const create = (body: object = paid) => owner.ok<Contract>('POST', './event-contracts', body);

describe('a contract', () => {
  it('is refused with an unusable schema and the path of the fault', async () => {
    for (const schema_definition of [
      { properties: { amount: { type: 'money' } } },
      { properties: { amount: { type: 'string', pattern: '(a)\\1' } } },
      { $ref: 'https://example.com/schema.json' },
    ]) {
      const answer = await owner.call<{ details: { path: string }[] }>('POST', './event-contracts', {
        ...paid,
        schema_definition,
      });
      expect(answer.status).toBe(400);
      for (const { path } of answer.body.details) expect(path).toMatch(/^\/schema_definition/);
    }
  });

  it('is the only active contract of its type and name', async () => {
    const first = await create();
    expect(await owner.call('POST', './event-contracts', paid)).toMatchObject({
      status: 409,
      body: { error: 'conflict', reason: 'taken', causes: [{ kind: 'contract', id: first.id }] },
    });
    const other = await create({ ...paid, event_name: 'Refunded' });
    expect((await owner.call('PUT', `./event-contracts/${other.id}`, paid)).status).toBe(409);
    await owner.ok('DELETE', `./event-contracts/${first.id}`);
    expect((await owner.call('POST', './event-contracts', paid)).status).toBe(201);
  });

  it('accepts one of several concurrent changes of a version, and refuses the others', async () => {
    const { id } = await create();
    const answers = await Promise.all(
      [1, 2, 3, 4].map((writer) =>
        owner.call(
          'PUT',
          `./event-contracts/${id}`,
          { ...paid, name: `By ${writer}` },
          { 'if-match': '"1"' },
        ),
      ),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 412, 412, 412]);
  });
});

describe('its violations', () => {
  const violation = (contractId: string, at: number, kind: string, action = 'warned') => ({
    kind: 'violation' as const,
    id: newId(),
    workspaceId: String(owner.workspaceId),
    at,
    version: 1,
    facets: {
      contract_id: contractId,
      kind,
      action,
      path: '/amount',
      contract_version: '1',
      environment: 'production',
    },
    body: {
      id: newId(),
      workspace_id: String(owner.workspaceId),
      environment: 'production',
      contract_id: contractId,
      contract_version: 1,
      message_id: `m${at}`,
      event_type: 'track',
      event_name: 'Paid',
      kind,
      path: '/amount',
      message: 'is required',
      action,
      received_at: new Date(at).toISOString(),
    },
  });
  const start = Date.now() - 3_600_000; // within the retention of history
  const seconds = (n: number) => start + n * 1_000;
  const iso = (ms: number) => new Date(ms).toISOString();

  it('are listed newest first, filtered and paged', async () => {
    const { id } = await create();
    const other = await create({ ...paid, event_name: 'Other' });
    await test.dependencies.history.put([
      violation(id, seconds(1), 'required'),
      violation(id, seconds(2), 'type'),
      violation(id, seconds(3), 'required', 'blocked'),
      violation(other.id, seconds(4), 'required'),
    ]);
    const messages = async (query: string) =>
      (await owner.ok<{ message_id: string }[]>('GET', `./event-contracts/${id}/violations${query}`)).map(
        ({ message_id }) => Number(message_id.slice(1)),
      );
    expect(await messages('')).toEqual([seconds(3), seconds(2), seconds(1)]);
    expect(await messages('?kind=type')).toEqual([seconds(2)]);
    expect(await messages('?action=blocked&path=/amount')).toEqual([seconds(3)]);
    expect(await messages('?path=/other')).toEqual([]);
    expect(await messages('?contract_version=1&environment=production&kind=type')).toEqual([seconds(2)]);
    expect(await messages('?contract_version=2')).toEqual([]);
    expect(await messages('?environment=development')).toEqual([]);
    expect(await messages(`?since=${iso(seconds(2))}&until=${iso(seconds(3))}`)).toEqual([seconds(2)]);
    const page = await owner.call('GET', `./event-contracts/${id}/violations?limit=2&kind=required`);
    expect(page.headers.link).toBeUndefined();
    const pages = await owner.allPages(`./event-contracts/${id}/violations?limit=2`);
    expect(pages.map(({ length }) => length)).toEqual([2, 1]);
  });

  it('are counted by the hour, with the filters of the list', async () => {
    const { id } = await create();
    const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
    await test.dependencies.history.put([
      violation(id, hour, 'required'),
      violation(id, hour - 1, 'type'),
      violation(id, hour - 2, 'required', 'blocked'),
      violation(id, hour - 30 * 3_600_000, 'required'),
      violation(randomUUID(), hour, 'required'),
    ]);
    const counts = async (query: string) => {
      const rows = await owner.ok<{ hour_bucket: string; violation_count: number }[]>(
        'GET',
        `./event-contracts/${id}/violations/hourly${query}`,
      );
      return rows.map(({ hour_bucket, violation_count }) => [Date.parse(hour_bucket), violation_count]);
    };
    expect(await counts('')).toEqual([
      [hour - 3_600_000, 2],
      [hour, 1],
    ]);
    expect(await counts('?hours=1')).toEqual([[hour, 1]]);
    expect(await counts('?kind=required&action=blocked')).toEqual([[hour - 3_600_000, 1]]);
    expect((await counts('?hours=720&kind=required')).map(([, count]) => count)).toEqual([1, 1, 1]);
  });

  it('are counted of several contracts at once, of those that are named', async () => {
    const [broken, sound] = [await create(), await create({ ...paid, event_name: 'Sound' })];
    const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
    await test.dependencies.history.put([
      violation(broken.id, hour, 'required'),
      violation(broken.id, hour - 1, 'type'),
    ]);
    const counts = (query: string) => owner.ok('GET', `./event-contracts/violations/hourly?${query}`);
    const ids = [sound.id, randomUUID(), broken.id.toUpperCase()].join(',');
    expect(await counts(`ids=${ids}`)).toEqual([
      { contract_id: sound.id, total: 0, hourly: [] },
      {
        contract_id: broken.id,
        total: 2,
        hourly: await owner.ok('GET', `./event-contracts/${broken.id}/violations/hourly`),
      },
    ]);
    expect(await counts(`ids=${ids}&hours=1&environment=production`)).toMatchObject([
      { total: 0 },
      { total: 1 },
    ]);
    for (const query of ['', 'ids=', 'ids=x', `ids=${broken.id}&hours=0`])
      expect((await owner.call('GET', `./event-contracts/violations/hourly?${query}`)).status).toBe(400);
    const other = await test.openWorkspace('other@example.com');
    expect(await other.ok('GET', `./event-contracts/violations/hourly?ids=${broken.id}`)).toEqual([]);
  });
});

describe('the evaluation of an event without storing it', () => {
  const validate = (id: string, event: object) =>
    owner.call('POST', `./event-contracts/${id}/validate`, event);

  it('returns a valid event as it would be accepted', async () => {
    const { id } = await create();
    expect(await validate(id, { user_id: 'u', properties: { amount: 3 } })).toMatchObject({
      status: 200,
      body: {
        outcome: 'accepted',
        violations: [],
        event: { type: 'track', event: 'Paid', user_id: 'u', properties: { amount: 3 } },
      },
    });
  });

  it('returns the violations, by the mode of the contract', async () => {
    const { id } = await create();
    const bad = { event: 'Paid', user_id: 'u', properties: {} };
    const violations = [{ kind: 'required', path: '/amount', contract_id: id, contract_version: 1 }];
    expect(await validate(id, bad)).toMatchObject({
      status: 200,
      body: {
        outcome: 'warned',
        violations: [{ ...violations[0], action: 'warned' }],
        event: { user_id: 'u' },
      },
    });
    await owner.ok('PUT', `./event-contracts/${id}`, { ...paid, enforcement_mode: 'block' });
    expect(await validate(id, bad)).toMatchObject({
      status: 200,
      body: { outcome: 'rejected', violations: [{ action: 'blocked', contract_version: 2 }], event: null },
    });
  });

  it('returns the event without the fields that would be omitted', async () => {
    const { id } = await create({ ...paid, undeclared_fields: 'omit' });
    const { body } = await validate(id, { user_id: 'u', properties: { amount: 3, extra: 1 } });
    expect(body).toMatchObject({ outcome: 'omitted', event: { properties: { amount: 3 } } });
    expect((body.event as { properties: object }).properties).not.toHaveProperty('extra');
  });

  it('stores and forwards nothing', async () => {
    const { id } = await create();
    const ends = () =>
      Promise.all([0, 1].map((partition) => test.dependencies.log.end('events.development', partition)));
    const before = await ends();
    await validate(id, { user_id: 'u', properties: { amount: 3 } });
    expect(await ends()).toEqual(before);
  });

  it.each([
    [{ properties: {} }, '/user_id'],
    [{ user_id: 'u', colour: 'red' }, '/colour'],
    [{ user_id: '' }, '/user_id'],
    [{ user_id: 'u', type: 'identify' }, '/type'],
    [{ user_id: 'u', event: 'Refunded' }, '/event'],
    [{ user_id: 'u', timestamp: 'now' }, '/timestamp'],
  ])('refuses %j as ingestion would, and events of another type or name', async (event, path) => {
    const { id } = await create();
    expect(await validate(id, event)).toMatchObject(refusedFor(path));
  });

  it('refuses an event that is too large', async () => {
    const { id } = await create();
    const large = { user_id: 'u', properties: { text: 'x'.repeat(33 * 1024) } };
    expect(await validate(id, large)).toMatchObject({ status: 413, body: { error: 'payload too large' } });
  });
});
