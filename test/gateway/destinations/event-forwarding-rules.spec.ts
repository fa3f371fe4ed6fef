import { randomUUID } from 'node:crypto';
import { type CanonicalEvent, type JsonObject, TOPIC } from '@tributary/core';
import { beforeEach, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { refusedFor } from '../../helpers/gateway.ts';
import { putJudged, trackEvent } from '../../helpers/judged-events.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
let destinationId: string;
beforeEach(async () => {
  owner = await test.openWorkspace();
  ({ id: destinationId } = await owner.destination());
});

interface Entity {
  readonly id: string;
}

async function createTransformation(tested: boolean): Promise<string> {
  const sample = { type: 'track', event: 'X', user_id: 'u' };
  const { id } = await owner.ok<Entity>('POST', './event-transformations', {
    name: 'Same',
    source_code: 'function transform(event) { return event; }',
    ...(tested ? { test_input: sample, test_output: sample } : {}),
  });
  return id;
}

const rule = (fields: object = {}) => ({ name: 'All', destination_id: destinationId, ...fields });
const create = (fields: object = {}) => owner.ok<Entity>('POST', './event-forwarding-rules', rule(fields));

it('a rule cannot reference a destination or transformation of another workspace', async () => {
  const other = await test.openWorkspace('other@example.com');
  const { id: theirs } = await other.destination();
  expect(
    await owner.call('POST', './event-forwarding-rules', rule({ destination_id: theirs })),
  ).toMatchObject(refusedFor('/destination_id'));
});

it('a rule can reference a draft only while it is disabled', async () => {
  const draft = await createTransformation(false);
  const refused = refusedFor('/transformation_id');
  const named = { transformation_id: draft };
  expect(await owner.call('POST', './event-forwarding-rules', rule(named))).toMatchObject(refused);
  const { id } = await create({ ...named, enabled: false });
  const at = `./event-forwarding-rules/${id}`;
  expect(await owner.call('PUT', at, rule(named))).toMatchObject(refused);
  const other = rule({ ...named, name: 'Still off', enabled: false });
  expect(await owner.call('PUT', at, other)).toMatchObject({ status: 200, body: { name: 'Still off' } });
});

it('an enabled rule keeps its destination from being deleted, and the refusal names it', async () => {
  const { id } = await create({ name: 'To the files' });
  expect(await owner.call('DELETE', `./destinations/${destinationId}`)).toMatchObject({
    status: 409,
    body: { error: 'conflict', reason: 'in_use', causes: [{ kind: 'rule', id, name: 'To the files' }] },
  });
  await owner.ok('PUT', `./event-forwarding-rules/${id}`, rule({ enabled: false }));
  expect((await owner.call('DELETE', `./destinations/${destinationId}`)).status).toBe(200);
});

it('a rule has a filter, and an invalid filter is refused with the reason', async () => {
  const filter = 'event.properties.total > 100';
  const { id } = await create({ filter });
  expect(await owner.ok('GET', `./event-forwarding-rules/${id}`)).toMatchObject({ filter });
  await owner.ok('PUT', `./event-forwarding-rules/${id}`, rule());
  expect(await owner.ok('GET', `./event-forwarding-rules/${id}`)).toMatchObject({ filter: null });
  for (const [bad, message] of [
    ['total > 100', expect.stringContaining('Unknown variable: total; did you mean event.properties.total')],
    ['event.anonymousId != ""', 'event has no anonymousId: did you mean event.anonymous_id?'],
    ['event.user_id.matches("a")', 'matches is not available in a filter'],
    ['1 + 1', 'gives int, not true or false'],
  ])
    expect(await owner.call('POST', './event-forwarding-rules', rule({ filter: bad }))).toMatchObject({
      status: 400,
      body: { details: [{ path: '/filter', message }] },
    });
});

it('a dry run evaluates a filter on recent accepted events, counts the results, and stores nothing', async () => {
  const made = (properties: JsonObject, fields: Partial<CanonicalEvent> = {}) =>
    trackEvent(String(owner.workspaceId), {
      properties,
      event: 'Sold',
      environment: 'production',
      ...fields,
    });
  const sold = made({ qty: 4 });
  await putJudged(test.dependencies.log, [
    ...[sold, made({ qty: 1 }), made({ qty: 2 }), made({}), made({ qty: 'many' })],
    made({ qty: 9 }, { event: 'Seen' }),
    made({ qty: 9 }, { environment: 'development' }),
    { ...made({ qty: 9 }), workspace_id: randomUUID() },
  ]);
  await putJudged(test.dependencies.log, [made({ qty: 9 })], TOPIC.rejected);
  const body = { event_names: ['Sold'], filter: 'event.properties.qty * 2 > 5' };
  const tried = await owner.ok<{ examples: object[]; failures: object[] }>(
    'POST',
    './event-forwarding-rules/dry-run',
    body,
  );
  expect(tried).toMatchObject({ events: 5, matched: 1, not_matched: 2, failed: 2, not_evaluated: 0 });
  expect(tried.failures).toContainEqual({ message: 'No such key: qty', events: 1 });
  expect(tried.examples).toHaveLength(5);
  expect(tried.examples).toContainEqual(
    expect.objectContaining({ message_id: sold.message_id, verdict: 'matched', message: null }),
  );
  expect(tried).toMatchObject({ coverage: { complete: true, stopped_by: null } });
  expect(await owner.ok('GET', './event-forwarding-rules')).toEqual([]);
  const everything = { environments: ['production', 'development'], events: 2 };
  expect(await owner.ok('POST', './event-forwarding-rules/dry-run', everything)).toMatchObject({
    ...{ events: 2, matched: 2 },
    coverage: { stopped_by: 'events' },
  });
  for (const [refused, path] of [
    [{ filter: 'qty > 1' }, '/filter'],
    [{ filter: 'event.qty > 1' }, '/filter'],
    [{ event_names: ['Sold*'] }, '/event_names/0'],
  ] as const)
    expect(await owner.call('POST', './event-forwarding-rules/dry-run', refused)).toMatchObject(
      refusedFor(path),
    );
});

it('a dry run ends if its filter takes too much work', async () => {
  const list = Array.from({ length: 900 }, () => 1);
  const costly = Array.from({ length: 60 }, () =>
    trackEvent(String(owner.workspaceId), { properties: { list }, environment: 'production' }),
  );
  await putJudged(test.dependencies.log, costly);
  const loop = `event.properties.list.exists(x, ${Array(11).fill('x.a').join(' || ')})`;
  const tried = await owner.ok<{ events: number; not_evaluated: number }>(
    'POST',
    './event-forwarding-rules/dry-run',
    { filter: Array(4).fill(loop).join(' || ') },
  );
  expect(tried).toMatchObject({ events: 60, not_evaluated: 60, matched: 0 });
});

it('the test of a rule states whether it would forward an event, or why not', async () => {
  const { id } = await create({ event_names: ['Paid'], filter: 'event.properties.total > 100' });
  const paid = { type: 'track', event: 'Paid', user_id: 'u', properties: { total: 120 } };
  const tested = (event: object, more: object = {}) =>
    owner.ok('POST', `./event-forwarding-rules/${id}/test`, { event, ...more });
  expect(await tested(paid)).toEqual({ matched: true, because: null, message: null });
  expect(await tested({ ...paid, event: 'Seen' })).toMatchObject({ matched: false, because: 'event_name' });
  expect(await tested({ ...paid, properties: { total: 1 } })).toMatchObject({ because: 'filter' });
  expect(await tested({ ...paid, properties: {} })).toEqual({
    matched: false,
    because: 'filter_failed',
    message: 'No such key: total',
  });
  expect(await tested(paid, { environment: 'development' })).toMatchObject({ because: 'environment' });
  const bad = await owner.call('POST', `./event-forwarding-rules/${id}/test`, { event: { type: 'track' } });
  expect(bad).toMatchObject({ status: 400, body: { error: 'invalid request' } });
});

it('the test of all rules with one event states which would forward it, and why others would not', async () => {
  const { id: destination_id } = await owner.destination();
  const make = (name: string, fields: object) =>
    owner.ok('POST', './event-forwarding-rules', { name, destination_id, ...fields });
  await make('all', {});
  await make('large', { filter: 'event.properties.total > 100' });
  await make('faulty', { filter: 'event.properties.nothing > 1' });
  await make('people', { event_types: ['identify'] });
  await make('off', { enabled: false });
  const event = { type: 'track', event: 'Paid', user_id: 'u', properties: { total: 7 } };
  const tried = await owner.ok<{ matched: number; rules: { name: string; because: string | null }[] }>(
    'POST',
    './event-forwarding-rules/test',
    { event },
  );
  const mine = tried.rules.filter(({ name }) => ['all', 'large', 'faulty', 'people', 'off'].includes(name));
  expect(mine.map(({ name, because }) => [name, because])).toEqual([
    ['all', null],
    ['large', 'filter'],
    ['faulty', 'filter_failed'],
    ['people', 'event_type'],
    ['off', 'disabled'],
  ]);
  const development = await owner.ok<{ matched: number }>('POST', './event-forwarding-rules/test', {
    event,
    environment: 'development',
  });
  expect(development.matched).toBe(0);
  expect((await owner.call('POST', './event-forwarding-rules/test', { event: {} })).status).toBe(400);
});
