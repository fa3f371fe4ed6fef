import { type CanonicalEvent, MAX_CANONICAL_EVENT_BYTES } from '@tributary/core';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { refusedFor } from '../../helpers/gateway.ts';
import { basic, openSegmentGateway } from '../../helpers/segment-client.ts';

const gateway = await openSegmentGateway();
const { test } = gateway;
const { workspaceId } = gateway.owner;
afterAll(() => test.close());

/** Posts a raw text, one byte a character, and returns the text appended to the log. */
async function post(url: string, text: string) {
  const append = vi.spyOn(test.dependencies.log, 'append');
  const isNative = url.startsWith('/api');
  const headers = isNative ? { authorization: `Bearer ${gateway.key}` } : basic(gateway.key);
  const answer = await test.app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json', ...headers },
    payload: Buffer.from(text, 'latin1'),
  });
  const texts = append.mock.calls.flatMap(([, entries]) => entries.map(({ value }) => String(value)));
  append.mockRestore();
  const events = texts.map((value) => JSON.parse(value) as CanonicalEvent);
  return { status: answer.statusCode, body: answer.json(), texts, events };
}

const postNative = (path: string, text: string) =>
  post(`/api/v1/workspaces/${workspaceId}/events/${path}`, text);
const native = (n: number, beside = '') => `{"type":"track","event":"E","user_id":"u${n}"${beside}}`;
const sdk = (n: number, beside = '') => `{"type":"track","event":"E","userId":"u${n}"${beside}}`;

const ODD = [
  ['half of a surrogate pair', String.raw`"properties":{"x":["\udabc"]}`, '/properties/x/0', 'replaced'],
  ['a key given twice', '"properties":{"x":1,"y":0,"x":2}', '/properties/x', 'last_taken'],
  ['__proto__', '"properties":{"x":{"__proto__":{"admin":true}}}', '/properties/x/__proto__', 'left_out'],
  [
    'nesting',
    `"properties":{"x":${'['.repeat(80)}${']'.repeat(80)}}`,
    `/properties/x${'/0'.repeat(62)}`,
    'as_text',
  ],
  ['a number out of range', '"properties":{"x":-3e555}', '/properties/x', 'as_text'],
  ['bytes that are no UTF-8', '"properties":{"x":"\xc3("}', '/properties/x', 'replaced'],
] as const;

describe.each(ODD)('an event of a batch with %s', (_, odd, path, change) => {
  it('is refused with its index and path on the native API, and the other items are accepted', async () => {
    const { status, body, events } = await postNative(
      'batch',
      `{"batch":[${native(0)},${native(1)},${native(2, `,${odd}`)},${native(3)}]}`,
    );
    expect(status).toBe(202);
    expect(body).toEqual({
      accepted: 3,
      rejected: [
        {
          index: 2,
          error: 'invalid request',
          details: [{ path, message: expect.stringMatching(/^(holds|is) /) }],
        },
      ],
    });
    expect(events.map(({ user_id }) => user_id)).toEqual(['u0', 'u1', 'u3']);
  });

  it('is 400 as a single event on the native API', async () => {
    const single = native(0, `,${odd}`).replace('"type":"track",', '');
    expect(await postNative('track', single)).toMatchObject({ status: 400, events: [] });
  });

  it.each(['/v1/batch', '/v1/import', '/v1/track'])(
    'is accepted at %s, and lists the changes',
    async (url) => {
      const call = sdk(1, `,${odd}`);
      const text = url === '/v1/track' ? call : `{"batch":[${sdk(0)},${call}]}`;
      const { status, body, events } = await post(url, text);
      expect({ status, body }).toEqual({ status: 200, body: { success: true } });
      expect(events.at(-1)?.context).toEqual({ tributary: { changed: [{ path, change }] } });
      if (events.length > 1) expect(events[0]).not.toHaveProperty('context');
      expect(events.at(-1)?.properties).toHaveProperty('x');
    },
  );
});

describe('a body', () => {
  it('that is malformed outside of its events is 400 on the native API', async () => {
    expect(await postNative('batch', `{"batch":[${native(0)}],"batch":[${native(1)}]}`)).toMatchObject(
      refusedFor('/batch'),
    );
    expect(await postNative('batch', `{"batch":[${native(0)}`)).toMatchObject({ status: 400 });
  });

  it('that is malformed beside its calls has the changes listed in each event', async () => {
    const { events } = await post('/v1/batch', `{"batch":[${sdk(0)},${sdk(1)}],"context":{"a":1,"a":2}}`);
    const tributary = { changed: [{ path: '/context/a', change: 'last_taken', in: 'body' }] };
    expect(events.map(({ context }) => context)).toEqual([
      { a: 2, tributary },
      { a: 2, tributary },
    ]);
  });
});

describe('a number that a double cannot hold', () => {
  const numbers = '{"order":4412589630147852369,"x":[{"rate":-0.12345678901234567891}],"small":5e-400}';

  it.each([
    ['a single event', 'track', `{"event":"E","user_id":"u","properties":${numbers}}`],
    ['a batch', 'batch', `{"batch":[${native(0)},${native(1, `,"properties":${numbers}`)}]}`],
  ])('keeps its digits in %s', async (_, path, text) => {
    const { status, texts } = await postNative(path, text);
    expect(status).toBe(202);
    expect(texts.at(-1)).toContain(`"properties":${numbers}`);
  });

  it('keeps its digits at /v1, and becomes text if it is an id', async () => {
    const { texts, events } = await post(
      '/v1/track',
      `{"event":"E","userId":4412589630147852369,"properties":${numbers},"version":4412589630147852369}`,
    );
    expect(texts[0]).toContain(`"properties":${numbers}`);
    expect(texts[0]).toContain('"version":4412589630147852369');
    expect(events[0]).toMatchObject({
      user_id: '4412589630147852369',
      context: { tributary: { changed: [{ path: '/userId', change: 'as_text' }] } },
    });
  });

  it.each(['properties', 'context'])('is not accepted as %s', async (name) => {
    const big = `"${name}":4412589630147852369`;
    expect(await postNative('track', `{"event":"E","user_id":"u",${big}}`)).toMatchObject({
      status: 400,
      body: { details: [{ path: `/${name}`, message: 'must be an object or null' }] },
    });
    expect((await post('/v1/track', `{"event":"E","userId":"u",${big}}`)).texts[0]).toContain(
      `"segment":{${big}}`,
    );
  });

  it('is evaluated as a double by a contract with `check=contract`', async () => {
    await gateway.owner.ok('POST', './event-contracts', {
      name: 'c',
      event_type: 'track',
      event_name: 'Judged',
      schema_definition: { properties: { order: { type: 'integer', minimum: 4412589630147852000 } } },
      enforcement_mode: 'block',
      undeclared_fields: 'allow',
    });
    const { status, texts } = await postNative(
      'track?check=contract',
      '{"event":"Judged","user_id":"u","properties":{"order":4412589630147852369}}',
    );
    expect(status).toBe(202);
    expect(texts[0]).toContain('{"order":4412589630147852369}');
  });
});

describe('a time', () => {
  it.each([
    ['2024-07-08', '2024-07-08T00:00:00.000Z'],
    ['2024-07-08T09:10', '2024-07-08T09:10:00.000Z'],
    ['2024-07-08T09:10:11.123456789+02:00', '2024-07-08T07:10:11.123456789Z'],
  ])('%s is normalized, and the original is kept', async (timestamp, canonical) => {
    const ours = await postNative(
      'track',
      native(0, `,"timestamp":"${timestamp}"`).replace('"type":"track",', ''),
    );
    expect(ours.events[0]).toMatchObject({ timestamp: canonical, context: { tributary: { timestamp } } });
    const theirs = await post('/v1/track', sdk(0, `,"timestamp":"${timestamp}"`));
    expect(theirs.events[0]).toMatchObject({ timestamp: canonical, context: { segment: { timestamp } } });
  });

  it('in the normalized form adds no field', async () => {
    const timestamp = '2024-07-08T09:10:11.120Z';
    const { events } = await post('/v1/track', sdk(0, `,"timestamp":"${timestamp}"`));
    expect(events[0]).toMatchObject({ timestamp });
    expect(events[0]).not.toHaveProperty('context');
  });

  it.each(['"2022-03-04T05:06:07.089:Z"', '"2022-3-04T05:06:07Z"', '""', '1646370367', '"x 05:06"'])(
    '%s that cannot be parsed is replaced by the server’s time at /v1, and is 400 on the native API',
    async (timestamp) => {
      const { status, events } = await post('/v1/track', sdk(0, `,"timestamp":${timestamp}`));
      expect(status).toBe(200);
      expect(events[0]?.timestamp).toBe(events[0]?.received_at);
      expect(events[0]?.context).toMatchObject({ segment: { timestamp: JSON.parse(timestamp) } });
      const single = native(0, `,"timestamp":${timestamp}`).replace('"type":"track",', '');
      expect((await postNative('track', single)).status).toBe(400);
    },
  );
});

describe('an event of the maximum size', () => {
  const sized = (item: Record<string, unknown>, name: string, bytes: number, filler = 'x') => {
    const place = { ...(item[name] as object), filler: '' };
    const empty = { ...item, [name]: place };
    const room = bytes - Buffer.byteLength(JSON.stringify(empty));
    const each = Buffer.byteLength(filler);
    place.filler = 'x'.repeat(room % each) + filler.repeat(Math.floor(room / each));
    return Buffer.from(JSON.stringify(empty)).toString('latin1');
  };
  const LARGEST = 32 * 1024;

  it('was refused because of fields that ingestion adds', async () => {
    const item = { event: 'E', user_id: 'u', timestamp: '2024-07-08' };
    for (const filler of ['x', 'é', '€']) {
      const fits = await postNative('track', sized(item, 'properties', LARGEST, filler));
      expect(fits).toMatchObject({ status: 202, events: [{ timestamp: '2024-07-08T00:00:00.000Z' }] });
      expect(Buffer.byteLength(fits.texts[0] ?? '')).toBeGreaterThan(LARGEST);
      const larger = await postNative('track', sized(item, 'properties', LARGEST + 1, filler));
      expect(larger).toMatchObject({ status: 413, events: [] });
    }
    const batch = [LARGEST + 1, LARGEST].map((bytes) => sized({ type: 'track', ...item }, 'context', bytes));
    expect(await postNative('batch', `{"batch":[${batch}]}`)).toMatchObject({
      body: { accepted: 1, rejected: [{ index: 0, error: 'payload too large' }] },
    });
  });

  it.each([
    [
      'track',
      { event: 'E', userId: 'u', timestamp: 1720429811000, integrations: { All: true } },
      'properties',
    ],
    ['alias', { userId: 'u', previousId: 'p', _metadata: { nodeVersion: '24' } }, 'traits'],
    // Its traits are in two places of the event.
    ['identify', { userId: 'u', sentAt: '2024-07-08T00:00:00Z', context: { traits: { a: 1 } } }, 'traits'],
    ['screen', { userId: 'u', name: 'n'.repeat(9_000) }, 'properties'],
  ])('was refused as a %s of an SDK', async (type, call, name) => {
    const inside = name === 'traits' && type === 'identify' ? 'context' : name;
    const whole = sized({ type, ...call }, inside, LARGEST);
    const larger = sized({ type, ...call }, inside, LARGEST + 1);
    expect(await post(`/v1/${type}`, whole)).toMatchObject({ status: 200, events: [{ user_id: 'u' }] });
    expect(await post(`/v1/${type}`, larger)).toMatchObject({ status: 413, events: [] });
    expect(await post('/v1/batch', `{"batch":[${larger},${whole}]}`)).toMatchObject({
      status: 200,
      body: { rejected: [{ index: 0, error: 'payload too large' }] },
    });
  });

  it('has its traits twice at most in RudderStack’s form', async () => {
    const call = { type: 'identify', userId: 'u', context: { traits: {} } };
    const room = LARGEST - JSON.stringify(call).length - 10;
    const text = JSON.stringify({ ...call, context: { traits: { a: 'x'.repeat(room) } } });
    const { status, texts } = await post('/v1/identify', text);
    expect(status).toBe(200);
    expect(Buffer.byteLength(texts[0] ?? '')).toBeLessThanOrEqual(MAX_CANONICAL_EVENT_BYTES);
  });

  it('includes the fields beside its batch', async () => {
    const call = { type: 'track', event: 'E', userId: 'u' };
    const beside = (bytes: number) => {
      const said = '"context":{"a":"b"}';
      return `{"batch":[${sized(call, 'properties', bytes - '{"a":"b"}'.length)}],${said}}`;
    };
    expect(await post('/v1/batch', beside(LARGEST))).toMatchObject({ status: 200 });
    expect(await post('/v1/batch', beside(LARGEST + 1))).toMatchObject({ status: 413 });
  });

  it('had a list of changes without a bound', async () => {
    const odd = Array.from({ length: 30 }, (_, n) => `"${'k'.repeat(400)}${n}":1e999`);
    const { events } = await post('/v1/track', sdk(0, `,"properties":{${odd}}`));
    expect(JSON.stringify(events[0]?.context?.tributary).length).toBeLessThan(4_096);
  });
});

describe('an event of a write key that collects addresses', () => {
  it('lost the digits of its numbers', async () => {
    const key = await gateway.owner.writeKey({ collect_ip: true });
    const append = vi.spyOn(test.dependencies.log, 'append');
    await test.app.inject({
      method: 'POST',
      url: '/v1/track',
      headers: { 'content-type': 'application/json', ...basic(key) },
      payload: sdk(0, ',"properties":{"post":7198273645546372819},"context":{"n":7198273645546372817}'),
      remoteAddress: '198.51.100.23',
    });
    const text = String(append.mock.calls[0]?.[1][0]?.value);
    append.mockRestore();
    expect(text).toContain('{"post":7198273645546372819}');
    expect(text).toContain('{"n":7198273645546372817,"ip":"198.51.100.23"}');
  });
});
