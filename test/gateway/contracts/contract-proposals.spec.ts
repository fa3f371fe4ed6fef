import { type CanonicalEvent, TOPIC } from '@tributary/core';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { putJudged, trackEvent } from '../../helpers/judged-events.ts';
import { measured } from '../../helpers/measured.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
});

const event = (fields: Partial<CanonicalEvent> = {}) => trackEvent(String(owner.workspaceId), fields);
const put = (events: readonly CanonicalEvent[], topic?: typeof TOPIC.rejected) =>
  putJudged(test.dependencies.log, events, topic);
const paid = {
  name: 'Paid',
  event_type: 'track',
  event_name: 'Paid',
  schema_definition: { properties: { amount: { type: 'number', required: true } } },
  enforcement_mode: 'block',
};

interface Inferred {
  readonly contract: { readonly schema_definition: object } | null;
  readonly events: number;
  readonly fields: readonly { readonly path: string; readonly seen: number; readonly required: boolean }[];
  readonly coverage: Readonly<Record<string, unknown>>;
}

describe('an inferred contract', () => {
  const infer = (body: object) => owner.ok<Inferred>('POST', './event-contracts/infer', body);

  it('can be created unchanged, and accepts the events it was inferred from', async () => {
    const lines = [{ sku: 'a', n: 1 }];
    await put([
      ...Array.from({ length: 30 }, (_, n) => event({ properties: { amount: n / 2, lines, note: null } })),
      event({ event: 'Other', properties: { other: 1 } }),
    ]);
    await put([event({ properties: { amount: 'much' } })], TOPIC.rejected);
    const { contract, events, fields, coverage } = await infer({
      event_type: 'track',
      event_name: 'Paid',
      required_ratio: 0.95,
    });
    expect(events).toBe(31);
    expect(fields.map(({ path, seen, required }) => [path, seen, required])).toEqual([
      ['/amount', 31, true],
      ['/lines', 30, true],
      ['/lines/*', 30, false],
      ['/lines/*/n', 30, true],
      ['/lines/*/sku', 30, true],
      ['/note', 30, true],
    ]);
    expect(coverage).toMatchObject({ complete: true, stopped_by: null });
    const made = await owner.call<{ id: string }>('POST', './event-contracts', contract);
    expect(made).toMatchObject({ status: 201, body: { ...contract, version: 1 } });
    const tried = { user_id: 'u', properties: { amount: 1, lines, note: null } };
    expect(await owner.ok('POST', `./event-contracts/${made.body.id}/validate`, tried)).toMatchObject({
      outcome: 'accepted',
      violations: [],
    });
  });

  it('is null without events, and is made only of events of the given environment and time', async () => {
    await put([event({ environment: 'development' })]);
    const body = { event_type: 'track', event_name: 'Paid' };
    expect(await infer({ ...body, environment: 'production' })).toMatchObject({
      contract: null,
      events: 0,
      fields: [],
    });
    expect(await infer({ ...body, environment: 'development' })).toMatchObject({ events: 1 });
    expect(await infer({ ...body, since: new Date(Date.now() + 60_000).toISOString() })).toMatchObject({
      events: 0,
    });
  });

  it('is made of the events whose name has no contract if no name is given', async () => {
    await owner.ok('POST', './event-contracts', paid);
    await put([event({ properties: { amount: 1 } }), event({ event: 'Seen', properties: { page: 'x' } })]);
    expect((await infer({ event_type: 'track' })).fields.map(({ path }) => path)).toEqual(['/page']);
  });

  it('is made of at most the requested number of events, and states it', async () => {
    await put(Array.from({ length: 20 }, () => event()));
    expect(await infer({ event_type: 'track', event_name: 'Paid', events: 7 })).toMatchObject({
      events: 7,
      coverage: { complete: false, stopped_by: 'events' },
    });
  });
});

describe('a dry run', () => {
  const good = () => event({ properties: { amount: 1 } });
  const bad = (message_id: string) => event({ message_id, properties: { amount: 'much' } });

  it('states how many events had already lost fields by another contract', async () => {
    await put([event({ properties: { amount: 1 } })]);
    await putJudged(test.dependencies.log, [event({ properties: { amount: 2 } })], TOPIC.accepted, 'omitted');
    expect(await owner.ok('POST', './event-contracts?dry_run=true', paid)).toMatchObject({
      events: 2,
      outcomes: { accepted: 2 },
      coverage: { omitted: 1 },
    });
    expect(
      await owner.ok('POST', './event-contracts/infer', { event_type: 'track', event_name: 'Paid' }),
    ).toMatchObject({ events: 2, coverage: { omitted: 1 } });
  });

  it('does not block the gateway with a deliberately slow contract', async () => {
    const wrong = { allOf: Array.from({ length: 80 }, () => ({ type: 'string' })) };
    const slow = { ...paid, schema_definition: { properties: { list: { items: wrong } } } };
    await put(Array.from({ length: 400 }, () => event({ properties: { list: Array(15_000).fill(1) } })));
    const dryRun = async () => {
      const turns: number[] = [];
      let last = performance.now();
      const ticking = setInterval(() => {
        turns.push(performance.now() - last);
        last = performance.now();
      }, 1);
      const { events } = await owner.ok<{ events: number }>('POST', './event-contracts?dry_run=true', slow);
      clearInterval(ticking);
      expect(events).toBeGreaterThan(50);
      expect(turns.length).toBeGreaterThan(20);
      const middle =
        turns.toSorted((a, b) => a - b)[Math.floor(turns.length / 2)] ?? Number.POSITIVE_INFINITY;
      return { middle, longest: Math.max(...turns) };
    };
    // It yields after 5 ms and the current event; the rest is tolerance for a busy machine.
    const { middle, longest } = await measured(
      dryRun,
      (figures) => figures.middle < 50 && figures.longest < 500,
    );
    expect(middle).toBeLessThan(50);
    expect(longest).toBeLessThan(500);
  });

  it('states the outcome of a change for recent events, and stores nothing', async () => {
    const { id } = await owner.ok<{ id: string }>('POST', './event-contracts', {
      ...paid,
      enforcement_mode: 'warn',
    });
    await put([good(), good(), bad('accepted'), event({ event: 'Other' })]);
    await put([bad('rejected')], TOPIC.rejected);
    const before = test.dependencies.catalog.position;
    const run = await owner.call('PUT', `./event-contracts/${id}?dry_run=true`, paid);
    expect(run.status).toBe(200);
    expect(run.headers.etag).toBeUndefined();
    expect(run.body).toEqual({
      dry_run: true,
      events: 4,
      outcomes: { accepted: 2, warned: 0, omitted: 0, rejected: 2 },
      violations: [
        { kind: 'type', path: '/amount', message: 'must be a number', action: 'blocked', events: 2 },
      ],
      violations_cut: false,
      examples: ['accepted', 'rejected'].map((message_id) => ({
        message_id,
        environment: 'production',
        event_name: 'Paid',
        received_at: expect.any(String),
        outcome: 'rejected',
        violations: [{ kind: 'type', path: '/amount', message: 'must be a number', action: 'blocked' }],
      })),
      coverage: {
        since: expect.any(String),
        oldest: expect.any(String),
        newest: expect.any(String),
        omitted: 0,
        records: expect.any(Number),
        bytes: expect.any(Number),
        complete: true,
        stopped_by: null,
      },
    });
    expect(test.dependencies.catalog.position).toBe(before);
    expect(await owner.ok('GET', `./event-contracts/${id}`)).toMatchObject({
      version: 1,
      enforcement_mode: 'warn',
    });
    // The tested version does not count: the next one is evaluated by its own schema.
    await owner.ok('PUT', `./event-contracts/${id}`, { ...paid, schema_definition: { properties: {} } });
    expect(
      await owner.ok('POST', `./event-contracts/${id}/validate`, {
        user_id: 'u',
        properties: { amount: 'x' },
      }),
    ).toMatchObject({ outcome: 'accepted' });
  });

  it('creates no contract', async () => {
    await put([good(), bad('m')]);
    const run = await owner.call('POST', './event-contracts?dry_run=true&events=10', paid);
    expect(run).toMatchObject({ status: 200, body: { events: 2, outcomes: { accepted: 1, rejected: 1 } } });
    expect(await owner.ok('GET', './event-contracts')).toEqual([]);
  });

  it('is refused like the change itself', async () => {
    const { id } = await owner.ok<{ id: string }>('POST', './event-contracts', paid);
    const other = await owner.ok<{ id: string }>('POST', './event-contracts', {
      ...paid,
      event_name: 'Other',
    });
    const dry = (method: 'POST' | 'PUT', at: string, body: object, headers = {}) =>
      owner.call(method, `./event-contracts${at}?dry_run=true`, body, headers);
    expect((await dry('POST', '', paid)).status).toBe(409);
    expect((await dry('PUT', `/${other.id}`, paid)).status).toBe(409);
    expect((await dry('PUT', `/${id}`, paid, { 'if-match': '"7"' })).status).toBe(412);
    expect((await dry('PUT', `/${id}`, { ...paid, schema_definition: { type: 'odd' } })).status).toBe(400);
    await owner.ok('DELETE', `./event-contracts/${id}`);
    expect((await dry('PUT', `/${id}`, paid)).status).toBe(409);
  });
});
