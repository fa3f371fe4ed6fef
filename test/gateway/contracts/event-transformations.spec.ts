import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
});

interface Transformation {
  readonly id: string;
  readonly status: string;
  readonly test_error: string | null;
}

const event = (properties: object) => ({ type: 'track', event: 'Paid', user_id: 'u', properties });
const doubling = {
  name: 'Double',
  source_code: 'function transform(event) { event.properties.n *= 2; return event; }',
  test_input: event({ n: 2 }),
  test_output: event({ n: 4 }),
};
const create = (body: object = doubling) => owner.ok<Transformation>('POST', './event-transformations', body);

/** A body as plain text: `JSON.stringify` would write `1e20` as 21 digits. */
const sendText = (method: 'POST' | 'PUT', url: string, payload: string) =>
  test.app.inject({
    method,
    url,
    payload,
    headers: {
      authorization: `Bearer ${owner.token}`,
      'x-workspace-id': owner.workspaceId,
      'content-type': 'application/json',
    },
  });

/** An enabled rule that uses a transformation. */
async function ruleNaming(transformationId: string): Promise<{ id: string }> {
  const destination = await owner.destination();
  return owner.ok<{ id: string }>('POST', './event-forwarding-rules', {
    name: 'All',
    destination_id: destination.id,
    transformation_id: transformationId,
  });
}

describe('a transformation', () => {
  it('showed in its test fewer digits of a number than are delivered', async () => {
    const { id } = await create({ ...doubling, source_code: 'function transform(event) { return event; }' });
    const answer = await sendText(
      'POST',
      `/api/v1/workspaces/${owner.workspaceId}/event-transformations/${id}/test`,
      '{"event":{"properties":{"id":12345678901234567890}}}',
    );
    expect(answer.body).toContain('{"properties":{"id":12345678901234567890}}');
  });

  it('is 413 with a clear message if only its stored form is too large', async () => {
    const numbers = Array.from({ length: 90_000 }, () => '1e20').join(',');
    const body = `{"name":"Grows","source_code":"function transform() {}","test_input":{"n":[${numbers}]}}`;
    const path = `/api/v1/workspaces/${owner.workspaceId}/event-transformations`;
    const { id } = await create();
    for (const answer of [await sendText('POST', path, body), await sendText('PUT', `${path}/${id}`, body)]) {
      expect(answer.statusCode).toBe(413);
      expect(answer.json()).toEqual({
        error: 'payload too large',
        details: [
          { path: '', message: expect.stringMatching(/^has \d+ bytes in its stored form, .* 1048576/) },
        ],
      });
    }
  });

  it('is active if it passes its test', async () => {
    expect(await create()).toMatchObject({ status: 'active', test_error: null, last_error: null });
  });

  it('is a draft without a test, and states which part of it is missing', async () => {
    const { test_input, test_output, ...untested } = doubling;
    for (const [body, missing] of [
      [untested, 'no test_input and no test_output'],
      [{ ...untested, test_input }, 'no test_output'],
      [{ ...untested, test_output }, 'no test_input'],
      [{ ...doubling, test_input: null }, 'no test_input'],
      [{ ...doubling, test_output: null }, 'no test_output'],
    ] as const) {
      const made = await create(body);
      const explained = { status: 'draft', test_error: expect.stringContaining(`there is ${missing};`) };
      expect(made).toMatchObject(explained);
      expect(await owner.ok('GET', `./event-transformations/${made.id}`)).toMatchObject(explained);
    }
  });

  it('is a draft with the failure if its test fails', async () => {
    expect(await create({ ...doubling, test_output: event({ n: 5 }) })).toMatchObject({
      status: 'draft',
      test_error: 'output: differs from test_output at /properties/n: returned 4, expected 5',
    });
    const throws = 'function transform() { throw new Error("boom"); }';
    expect(await create({ ...doubling, source_code: throws })).toMatchObject({
      status: 'draft',
      test_error: expect.stringContaining('boom'),
    });
  });

  it('is 413 if it is larger than a record of the catalog', async () => {
    const source_code = `${doubling.source_code} // ${'x'.repeat(600 * 1024)}`;
    expect((await owner.call('POST', './event-transformations', { ...doubling, source_code })).status).toBe(
      413,
    );
  });

  it('is replaced by PUT at the version of If-Match', async () => {
    const { id } = await create({ ...doubling, description: 'x' });
    const put = (body: object, tag: string) =>
      owner.call('PUT', `./event-transformations/${id}`, body, { 'if-match': tag });
    const triple = { ...doubling, test_output: event({ n: 6 }) };
    expect(await put(triple, '"1"')).toMatchObject({
      status: 200,
      body: { status: 'draft', description: null, version: 2 },
    });
    expect((await put(doubling, '"1"')).status).toBe(412);
    expect(await put(doubling, '"2"')).toMatchObject({ status: 200, body: { status: 'active', version: 3 } });
  });

  it('is kept active while an enabled rule references it', async () => {
    const { id } = await create();
    const rule = await ruleNaming(id);
    const failing = { ...doubling, test_output: event({ n: 5 }) };
    const causes = [{ kind: 'rule', id: rule.id, name: 'All' }];
    const message = expect.stringMatching(/^output: differs from test_output at .*: returned 4, expected 5$/);
    expect(await owner.call('PUT', `./event-transformations/${id}`, failing)).toMatchObject({
      status: 409,
      body: { reason: 'test_failed', causes, details: [{ path: '/test_output', message }] },
    });
    const untested = { name: doubling.name, source_code: doubling.source_code };
    expect(await owner.call('PUT', `./event-transformations/${id}`, untested)).toMatchObject({
      status: 409,
      body: { reason: 'test_failed', causes, details: [{ message: expect.stringMatching(/^not tested: /) }] },
    });
    expect(await owner.call('DELETE', `./event-transformations/${id}`)).toMatchObject({
      status: 409,
      body: { reason: 'in_use', causes },
    });
    expect(
      (await owner.call('PUT', `./event-transformations/${id}`, { ...doubling, name: 'D' })).status,
    ).toBe(200);
    await owner.ok('DELETE', `./event-forwarding-rules/${rule.id}`);
    expect((await owner.call('PUT', `./event-transformations/${id}`, failing)).status).toBe(200);
  });
});

describe('a test run', () => {
  const run = (id: string, body?: object) => owner.call('POST', `./event-transformations/${id}/test`, body);

  it('runs the stored source on its test_input without a body', async () => {
    const { id } = await create();
    expect(await run(id)).toMatchObject({
      status: 200,
      body: { ok: true, output: event({ n: 4 }), error: null, logs: [], duration_ms: expect.any(Number) },
    });
    expect((await run(id, { event: null, source_code: null })).body.output).toEqual(event({ n: 4 }));
  });

  it('runs another source on another event, and stores neither', async () => {
    const { id } = await create();
    const source_code =
      'function transform(event, context) { console.log("saw", event.properties.x); return [{ ...event, context: { c: typeof context } }, event]; }';
    const other = event({ x: 1 });
    const { body } = await run(id, { event: other, source_code });
    expect(body).toMatchObject({ ok: true, output: [{ ...other, context: { c: 'object' } }, other] });
    expect(JSON.stringify(body.logs)).toContain('saw');
    expect(await owner.ok('GET', `./event-transformations/${id}`)).toMatchObject({ ...doubling, version: 1 });
  });

  it('returns null for a dropped event', async () => {
    const { id } = await create();
    expect(await run(id, { source_code: 'function transform() { return null; }' })).toMatchObject({
      status: 200,
      body: { ok: true, output: null, error: null },
    });
  });

  it('returns logs with levels, the duration, and the place of a failure', async () => {
    const { id } = await create();
    const source_code = `function transform(event) {
  console.log('n', event.properties.n); console.debug('d'); console.info('i'); console.warn('w'); console.error('e');
  return event.nothing.there; }`;
    const { body } = await run(id, { source_code });
    expect(body).toMatchObject({
      ok: false,
      line: 3,
      column: 24,
      error: expect.stringContaining('(line 3)'),
    });
    expect(body.logs).toEqual([
      { level: 'info', text: 'n 2' },
      { level: 'debug', text: 'd' },
      { level: 'info', text: 'i' },
      { level: 'warn', text: 'w' },
      { level: 'error', text: 'e' },
    ]);
    expect(body.compile_ms).toBeGreaterThan(0);
    expect(body.run_ms).toBeGreaterThanOrEqual(0);
    const broken = await run(id, { source_code: 'function transform() {\n  return 1 +; }' });
    expect(broken.body).toMatchObject({ ok: false, line: 2, column: 13 });
    expect((await run(id)).body).toMatchObject({ line: null, column: null });
  });

  it('has the time of its event, in UTC, and deterministic random numbers', async () => {
    const { id } = await create();
    const source_code =
      'const transform = (event) => ({ ...event, properties: { at: new Date(), n: Math.random() } })';
    const propertiesOf = async (body: object) =>
      ((await run(id, { source_code, ...body })).body as { output: { properties: object } }).output
        .properties;
    const once = await propertiesOf({});
    expect(once).toEqual({ at: '2026-01-01T00:00:00.000Z', n: expect.any(Number) });
    expect(await propertiesOf({})).toEqual(once);
    const received_at = '2026-03-04T05:06:07.089Z';
    const other = await propertiesOf({ event: { ...event({}), received_at, message_id: 'm' } });
    expect(other).toEqual({ at: received_at, n: expect.any(Number) });
    expect(other).not.toMatchObject({ n: (once as { n: number }).n });
  });

  it('requires an event in the body or a test_input', async () => {
    const { id } = await create({ name: 'Untested', source_code: doubling.source_code });
    expect(await run(id)).toMatchObject(refusedFor('/event'));
    expect((await run(id, { event: event({ n: 1 }) })).status).toBe(200);
  });
});

describe('the metrics of a transformation', () => {
  const hour = () => Math.floor(Date.now() / 3_600_000) * 3_600_000;
  const nothing = { runs: 0, errors: 0, dropped: 0, fanned_out: 0, outputs: 0, p50_ms: null, p99_ms: null };

  it('are the totals of its runs in the requested hours', async () => {
    const { id } = await create();
    const metrics = (query = '') => owner.ok('GET', `./event-transformations/${id}/metrics${query}`);
    expect(await metrics()).toEqual({ transformation_id: id, hours: 24, ...nothing, hourly: [] });
    const tally = (counts: Readonly<Record<string, number>>, hoursAgo: number) => ({
      workspaceId: owner.workspaceId ?? '',
      transformationId: id,
      hour: hour() - hoursAgo * 3_600_000,
      counts,
    });
    await test.dependencies.counters.addRuns([
      tally({ runs: 100, errors: 2, dropped: 3, fanned_out: 4, outputs: 105, ms10: 95, ms20: 5 }, 0),
      tally({ runs: 7, outputs: 7, ms10: 7 }, 30),
    ]);
    const now = {
      runs: 100,
      errors: 2,
      dropped: 3,
      fanned_out: 4,
      outputs: 105,
      p50_ms: 0.0577,
      p99_ms: 3.33,
    };
    const hourly = [{ hour_bucket: new Date(hour()).toISOString(), ...now }];
    expect(await metrics()).toEqual({ transformation_id: id, hours: 24, ...now, hourly });
    expect(await metrics('?hours=48')).toMatchObject({
      hours: 48,
      runs: 107,
      hourly: [
        { hour_bucket: new Date(hour() - 30 * 3_600_000).toISOString(), runs: 7, errors: 0, p50_ms: 0.0577 },
        ...hourly,
      ],
    });
    const { id: idle } = await create();
    const several = `./event-transformations/metrics?ids=${idle},${randomUUID()},${id.toUpperCase()}`;
    expect(await owner.ok('GET', several)).toEqual([
      { transformation_id: idle, hours: 24, ...nothing, hourly: [] },
      await metrics(),
    ]);
    expect((await owner.call('GET', './event-transformations/metrics')).status).toBe(400);
  });
});
