import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** Any bad input gets a clear 4xx in one shape, never a 500, and the process stays healthy. */
describe('Bad input', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  interface Refusal {
    readonly status: number;
    readonly body: {
      readonly error: string;
      readonly details?: readonly { readonly path: string; readonly message: string }[];
    };
    readonly headers: Headers;
  }

  async function post(
    body: string | Buffer,
    headers: Record<string, string> = {},
    path = 'events/track',
  ): Promise<Refusal> {
    const response = await fetch(`${tributary.url}/api/v1/workspaces/${tributary.workspaceId}/${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${tributary.writeKey}`,
        'content-type': 'application/json',
        ...headers,
      },
      body: typeof body === 'string' ? body : new Uint8Array(body),
    });
    return {
      status: response.status,
      body: (await response.json()) as Refusal['body'],
      headers: response.headers,
    };
  }
  const json = (value: unknown) => JSON.stringify(value);
  const good = { event: 'E', user_id: 'u' };

  it.each([
    ['malformed JSON', '{"event":', '', 'is not valid JSON'],
    ['an empty body', '', '', undefined],
    ['JSON that is not an object', '[]', '', 'must be an object'],
    ['a missing subject', json({ event: 'E' }), '/user_id', 'user_id or anonymous_id is required'],
    ['an unknown field', json({ ...good, userId: 'u' }), '/userId', 'is not a known field'],
    [
      'an invalid timestamp',
      json({ ...good, timestamp: 'yesterday' }),
      '/timestamp',
      'must be an ISO 8601 time',
    ],
    [
      'a day that does not exist',
      json({ ...good, timestamp: '2013-02-31T00:00:00Z' }),
      '/timestamp',
      'must be an ISO 8601 time',
    ],
    [
      'half of a surrogate pair',
      String.raw`{"event":"E","user_id":"u","message_id":"\ud800"}`,
      '/message_id',
      'holds half of a surrogate pair',
    ],
    [
      'a key twice in one object',
      '{"event":"E","user_id":"u","user_id":"v"}',
      '/user_id',
      'holds the same key twice in one object',
    ],
    [
      '__proto__ in properties',
      '{"event":"E","user_id":"u","properties":{"__proto__":{"x":1}}}',
      '/properties/__proto__',
      undefined,
    ],
    [
      'deep nesting',
      `{"event":"E","user_id":"u","properties":{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}}`,
      `/properties/a${'/0'.repeat(62)}`,
      undefined,
    ],
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), '', 'is not valid UTF-8'],
  ])('400 for %s', async (_, body, path, message) => {
    const refused = await post(body);
    expect(refused).toMatchObject({ status: 400, body: { error: 'invalid request' } });
    expect(refused.body.details?.[0]?.path).toBe(path);
    if (message !== undefined) expect(refused.body.details?.[0]?.message).toBe(message);
    expect(refused.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  it.each([
    ['an event of 33 KiB', () => post(json({ ...good, properties: { text: 'x'.repeat(33 * 1024) } }))],
    ['a body of 5 MiB', () => post(json({ ...good, properties: { text: 'x'.repeat(5 * 1024 * 1024) } }))],
    [
      'a gzip bomb',
      () =>
        post(gzipSync(json({ ...good, properties: { text: ' '.repeat(64 * 1024 * 1024) } })), {
          'content-encoding': 'gzip',
        }),
    ],
  ])('413 for %s', async (_, send) => {
    expect(await send()).toMatchObject({ status: 413, body: { error: 'payload too large' } });
  });

  it.each([
    ['another content type', () => post(json(good), { 'content-type': 'application/xml' })],
    ['an unknown content encoding', () => post(json(good), { 'content-encoding': 'compress' })],
  ])('415 for %s', async (_, send) => {
    expect(await send()).toMatchObject({ status: 415, body: { error: 'unsupported media type' } });
  });

  it('accepts a body with the content encoding `identity`', async () => {
    expect(await post(json(good), { 'content-encoding': 'identity' })).toMatchObject({ status: 202 });
  });

  it.each([
    ['a path that is not a URL', '/api/v1/workspaces/%zz', 400, 'invalid request'],
    ['a path segment longer than any id', `/api/v1/workspaces/${'x'.repeat(201)}`, 404, 'not found'],
  ])('%s is answered in the common error format', async (_, path, status, error) => {
    expect(await raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)).toMatchObject({
      status,
      body: { error },
    });
  });

  it.each([
    ['bytes that are not HTTP', 'GARBAGE\r\n\r\n', 'is not valid HTTP'],
    [
      'headers that are too large',
      `GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(100_000)}\r\n\r\n`,
      'the headers are too large',
    ],
  ])('400 for %s', async (_, request, message) => {
    expect(await raw(request)).toMatchObject({
      status: 400,
      body: { error: 'invalid request', details: [{ path: '', message }] },
    });
  });

  /** Sends raw bytes, which no HTTP client would, and reads the answer. */
  async function raw(request: string): Promise<{ status: number; body: unknown }> {
    const { hostname, port } = new URL(tributary.url);
    const socket = connect({ host: hostname, port: Number(port) });
    socket.write(request);
    const answer = await text(socket);
    const [head = '', body = ''] = answer.split('\r\n\r\n', 2);
    expect(head).toMatch(/^x-request-id: [0-9a-f-]{36}\r?$/m);
    expect(head).toMatch(/^content-type: application\/json/m);
    return { status: Number(head.split(' ', 2)[1]), body: JSON.parse(body) };
  }

  it('400 for a body that is declared as gzip and is not', async () => {
    expect(await post('not gzip', { 'content-encoding': 'gzip' })).toMatchObject({ status: 400 });
    expect(await post(gzipSync(json(good)).subarray(0, 20), { 'content-encoding': 'gzip' })).toMatchObject({
      status: 400,
    });
  });

  it('an item of a batch that is too large is refused by its index, and the others are accepted', async () => {
    const batch = [
      { type: 'track', ...good, properties: { text: 'x'.repeat(33 * 1024) } },
      { type: 'track', ...good },
    ];
    expect(await post(json({ batch }), {}, 'events/batch')).toMatchObject({
      status: 202,
      body: { accepted: 1, rejected: [{ index: 0, error: 'payload too large' }] },
    });
    const many = Array.from({ length: 2_501 }, () => ({ type: 'track', ...good }));
    expect(await post(json({ batch: many }), {}, 'events/batch')).toMatchObject({ status: 400 });
  });

  it('404 for a resource that does not exist or belongs to another workspace', async () => {
    const other = await tributary.owner.post<{ id: string }>('/workspaces', { name: 'Other' });
    const foreign = await tributary.owner
      .with({ workspaceId: other.id })
      .post<{ id: string }>('./destinations', { name: 'd', type: 'ndjson', settings: { folder: 'd' } });
    for (const path of [
      `./destinations/${foreign.id}`,
      './destinations/nonsense',
      `./event-contracts/${other.id}`,
    ]) {
      expect(await tributary.owner.call('GET', path)).toMatchObject({
        status: 404,
        body: { error: 'not found' },
      });
    }
    const rule = {
      name: 'r',
      destination_id: foreign.id,
      event_types: [],
      event_names: [],
      transformation_id: null,
      enabled: true,
    };
    expect((await tributary.owner.call('POST', './event-forwarding-rules', rule)).status).toBe(400);
    expect((await fetch(`${tributary.url}/api/v1/nowhere`)).status).toBe(404);
  });

  it('bodies that try to pollute prototypes leave no trace in later requests and events', async () => {
    // Fields that the server reads from later bodies, in which they are absent: a polluted prototype would
    // supply them.
    const brought = json({
      description: 'x',
      anonymous_id: 'x',
      context: { x: 1 },
      enabled: false,
      limit: '1',
    });
    const statuses: number[] = [];
    for (const body of [
      `{"event":"E","user_id":"u","__proto__":${brought}}`,
      `{"event":"E","user_id":"u","properties":{"__proto__":${brought}}}`,
      `{"event":"E","user_id":"u","constructor":{"prototype":${brought}}}`,
      `{"event":"E","user_id":"u","properties":{"constructor":{"prototype":${brought}}}}`,
      `{"event":"E","user_id":"u","context":{"a":{"constructor":{"prototype":${brought}}}}}`,
    ])
      statuses.push((await post(body)).status);
    expect(statuses).toEqual([400, 400, 400, 202, 202]);

    const contract = { name: 'After', event_type: 'track', event_name: 'After', schema_definition: {} };
    expect(await tributary.owner.post('./event-contracts', contract)).toMatchObject({ description: null });
    const destination = await tributary.owner.post<{ id: string }>('./destinations', {
      name: 'Files',
      type: 'ndjson',
      settings: { folder: 'after' },
    });
    const rule = { name: 'After', destination_id: destination.id, event_names: ['After'] };
    expect(await tributary.owner.post('./event-forwarding-rules', rule)).toMatchObject({ enabled: true });

    expect((await post(json({ event: 'After' }))).status).toBe(400);
    expect((await post(json({ event: 'After', user_id: 'u' }))).status).toBe(202);
    const [delivered] = await eventually(
      () => writtenTo('after'),
      (lines) => lines.length > 0,
    );
    const { message_id, timestamp, received_at, source_id, ...event } = delivered?.event ?? {};
    expect(event).toEqual({
      type: 'track',
      event: 'After',
      user_id: 'u',
      environment: 'production',
      workspace_id: tributary.workspaceId,
    });
  });

  /** The lines that the server wrote to a folder of its workspace. */
  function writtenTo(name: string): readonly { readonly event: Record<string, unknown> }[] {
    const folder = join(tributary.folder, 'ndjson', tributary.workspaceId, name);
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .flatMap((file) => readFileSync(join(folder, file), 'utf8').split('\n').slice(0, -1))
      .map((line) => JSON.parse(line));
  }

  it('the gateway is healthy after all invalid input, without an unexpected failure', async () => {
    expect((await post(json(good))).status).toBe(202);
    expect((await fetch(`${tributary.url}/readyz`)).status).toBe(200);
    expect(tributary.log()).not.toContain('failed unexpectedly');
  });
});
