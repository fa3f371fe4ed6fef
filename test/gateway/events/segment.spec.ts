import {
  brotliCompressSync,
  constants,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';
import { TokenBuckets, Unavailable } from '@tributary/core';
import { afterAll, afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';
import { basic, openSegmentGateway } from '../../helpers/segment-client.ts';

const { test, owner, key, send } = await openSegmentGateway();
afterEach(() => vi.restoreAllMocks());
afterAll(() => test.close());

const track = { userId: 'u', event: 'Paid' };
const TAKEN = { status: 200, body: { success: true } };

describe('a call of the Segment API', () => {
  it.each([
    ['track', { event: 'Paid', properties: { total: 3 } }, { event: 'Paid', properties: { total: 3 } }],
    ['identify', { traits: { plan: 'pro' } }, { traits: { plan: 'pro' } }],
    ['page', { name: 'Home', properties: { url: '/' } }, { name: 'Home', properties: { url: '/' } }],
    ['group', { groupId: 'g', traits: { name: 'G' } }, { group_id: 'g', traits: { name: 'G' } }],
  ])('%s is accepted at its name and at its letter', async (type, fields, ours) => {
    for (const path of [`/v1/${type}`, `/v1/${type.slice(0, 1)}`, `/v1/${type}/`]) {
      const sent = await send(path, { ...fields, userId: 'u', anonymousId: 'a', messageId: 'm' });
      expect(sent).toMatchObject(TAKEN);
      expect(sent.events).toMatchObject([
        { ...ours, type, message_id: 'm', user_id: 'u', anonymous_id: 'a' },
      ]);
    }
  });

  it('screen and alias became a page and an identify: they are types of their own', async () => {
    for (const path of ['/v1/screen', '/v1/s'])
      expect((await send(path, { userId: 'u', name: 'Home' })).events).toMatchObject([
        { type: 'screen', name: 'Home' },
      ]);
    for (const path of ['/v1/alias', '/v1/a'])
      expect((await send(path, { userId: 'u', previousId: 'p' })).events).toMatchObject([
        { type: 'alias', previous_id: 'p' },
      ]);
  });

  it('had its traits in two places of the event: those of the context are in `traits` alone', async () => {
    const context = { ip: '192.0.2.3', traits: { plan: 'free', pin: 4711 } };
    for (const [url, call] of [
      ['/v1/identify', { userId: 'u', traits: { plan: 'pro' }, context }],
      ['/v1/batch', { batch: [{ type: 'identify', userId: 'u', traits: { plan: 'pro' } }], context }],
      ['/v1/alias', { userId: 'u', previousId: 'p', traits: { plan: 'pro' }, context }],
    ] as const) {
      const [event] = (await send(url, call)).events;
      expect(event).toMatchObject({ traits: { plan: 'pro', pin: 4711 }, context: { ip: '192.0.2.3' } });
      expect(JSON.stringify(event).match(/4711/g)).toHaveLength(1);
    }
    expect(
      (await send('/v1/identify', { userId: 'u', context: { traits: { at: 1e21 } } })).events,
    ).toMatchObject([{ traits: { at: 1e21 }, context: {} }]);
    // The user's traits beside another call are no copy of its subject.
    expect((await send('/v1/track', { ...track, context })).events).toMatchObject([{ context }]);
  });

  it('has the type of its path, whatever its body states', async () => {
    expect((await send('/v1/track', { ...track, type: 'identify' })).events).toMatchObject([
      { type: 'track' },
    ]);
  });

  it('is 400 without a field that its type requires, with the field’s name in the Segment API', async () => {
    const sent = await send('/v1/track', { event: 'E' });
    expect(sent).toMatchObject({
      status: 400,
      body: {
        error: 'invalid request',
        code: 'invalid_request',
        message: 'invalid request: /userId userId or anonymousId is required',
        details: [{ path: '/userId', message: 'userId or anonymousId is required' }],
      },
      events: [],
    });
    expect(await send('/v1/group', { userId: 'u' })).toMatchObject({
      status: 400,
      body: { details: [{ path: '/groupId', message: 'is required' }] },
    });
    expect(await send('/v1/track', '[]')).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(await send('/v1/track', '{"event":')).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
  });
});

describe('a body', () => {
  it.each([
    'text/plain',
    'text/plain;charset=UTF-8',
    'application/x-www-form-urlencoded',
    'application/json',
  ])('is parsed as JSON with the type %s, plain or in gzip', async (type) => {
    const text = JSON.stringify(track);
    expect(await send('/v1/track', text, { ...basic(key), 'content-type': type })).toMatchObject(TAKEN);
    expect(
      await send('/v1/track', gzipSync(text), {
        ...basic(key),
        'content-type': type,
        'content-encoding': 'gzip',
      }),
    ).toMatchObject(TAKEN);
    expect(await send('/v1/track', 'a=b', { ...basic(key), 'content-type': type })).toMatchObject({
      status: 400,
    });
  });

  it.each([
    undefined,
    'application/octet-stream',
    'text/json; charset=utf-8',
    'application/x-json',
    'application/vnd.events+json',
  ])('was 415 with the content type %s', async (type) => {
    const headers = { ...basic(key), ...(type === undefined ? {} : { 'content-type': type }) };
    const body = Buffer.from(JSON.stringify(track));
    const answer = await test.app.inject({ method: 'POST', url: '/v1/track', headers, payload: body });
    expect([answer.statusCode, answer.json()]).toEqual([200, { success: true }]);
  });

  it.each([
    ['x-gzip', gzipSync],
    ['X-GZIP', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['deflate', (text: string) => deflateRawSync(text, { level: 0 })],
    ['identity', (text: string) => text],
    ['', (text: string) => text],
    ['BR', brotliCompressSync],
    ['zstd', zstdCompressSync],
    ['identity, Gzip', gzipSync],
    ['gzip, gzip', (text: string) => gzipSync(gzipSync(text))],
    ['zstd,deflate', (text: string) => deflateSync(zstdCompressSync(text))],
  ])('was refused in %s, with a byte order mark or without', async (encoding, encoded) => {
    for (const mark of ['', '\ufeff'])
      expect(
        await send('/v1/track', encoded(`${mark}${JSON.stringify(track)}`), {
          ...basic(key),
          'content-type': 'application/json',
          'content-encoding': encoding,
        }),
      ).toMatchObject(TAKEN);
    const withKey = `\ufeff${JSON.stringify({ ...track, writeKey: key })}`;
    const inBody = { 'content-type': 'application/json', 'content-encoding': encoding };
    expect(await send('/v1/track', encoded(withKey), inBody)).toMatchObject(TAKEN);
  });

  it('was refused with a byte order mark as invalid JSON by the platform API', async () => {
    const url = `/api/v1/workspaces/${owner.workspaceId}/events/track`;
    const text = `\ufeff${JSON.stringify({ event: 'E', user_id: 'u' })}`;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    expect(await send(url, text, headers)).toMatchObject({ status: 202 });
    const encoded = { ...headers, 'content-encoding': 'gzip' };
    expect(await send(url, gzipSync(text), encoded)).toMatchObject({ status: 202 });
  });

  it('that inflates beyond its limit is 413 in every encoding, and one in unknown encodings 415', async () => {
    const bomb = Buffer.alloc(5 * 1024 * 1024, ' ');
    const sendAs = (encoding: string, payload: Buffer) =>
      send('/v1/track', payload, {
        ...basic(key),
        'content-type': 'application/json',
        'content-encoding': encoding,
      });
    for (const [encoding, payload] of [
      ['zstd', zstdCompressSync(bomb)],
      ['br', brotliCompressSync(bomb, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
      ['gzip, gzip', gzipSync(gzipSync(bomb))],
    ] as const)
      expect(await sendAs(encoding, payload), encoding).toMatchObject({ status: 413 });
    for (const encoding of ['compress', 'gzip, snappy', 'gzip, gzip, gzip'])
      expect(await sendAs(encoding, gzipSync('{}')), encoding).toMatchObject({ status: 415 });
    // A frame of 8 bytes that requests a window of 128 MiB.
    const window = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x01, 0x00]);
    expect(await sendAs('zstd', window)).toMatchObject({ status: 400 });
  });

  it('is 415 with other types, and the platform API accepts only JSON', async () => {
    expect(await send('/v1/track', 'x', { ...basic(key), 'content-type': 'application/xml' })).toMatchObject({
      status: 415,
    });
    const url = `/api/v1/workspaces/${owner.workspaceId}/events/track`;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'text/plain' };
    expect(await send(url, { event: 'E', user_id: 'u' }, headers)).toMatchObject({ status: 415 });
  });
});

describe('a batch', () => {
  const good = { type: 'track', ...track };

  it.each(['/v1/batch', '/v1/b', '/v1/import', '/beacon/v1/batch'])(
    'is accepted at %s with calls of all types',
    async (path) => {
      const batch = [
        good,
        { type: 'identify', userId: 'u' },
        { type: 'page', userId: 'u' },
        { type: 'screen', userId: 'u' },
        { type: 'group', userId: 'u', groupId: 'g' },
        { type: 'alias', userId: 'u', previousId: 'p' },
      ];
      const sent = await send(path, { batch, sentAt: new Date().toISOString() });
      expect(sent).toMatchObject(TAKEN);
      expect(sent.events.map(({ type }) => type)).toEqual(batch.map(({ type }) => type));
    },
  );

  it('is accepted with a list of its invalid calls, so that SDKs resend none', async () => {
    const batch = [
      { type: 'nonsense', userId: 'u' },
      good,
      'text',
      { type: 'track', userId: {}, event: 'E' },
    ];
    const sent = await send('/v1/batch', { batch });
    expect(sent).toMatchObject({
      status: 200,
      body: {
        success: true,
        rejected: [
          {
            index: 0,
            error: 'invalid request',
            details: [
              { path: '/type', message: 'must be one of track, identify, page, screen, group, alias' },
            ],
          },
          { index: 2 },
          { index: 3, details: [{ path: '/userId', message: 'userId or anonymousId is required' }] },
        ],
      },
    });
    expect(sent.events).toHaveLength(1);
  });

  it('is 400 with only invalid calls, and accepted if it is empty', async () => {
    expect(await send('/v1/batch', { batch: [{ type: 'track' }] })).toMatchObject({
      status: 400,
      body: { error: 'invalid request', rejected: [{ index: 0 }] },
      events: [],
    });
    expect(await send('/v1/batch', { batch: [] })).toMatchObject({ ...TAKEN, events: [] });
  });

  it('stores its own fields with each of its events, and never its write key', async () => {
    const said = { messageId: 'the batch’s', sequence: 3, channel: 'server', writeKey: key };
    const { status, events } = await send('/v1/batch', { batch: [good, good], ...said });
    const { writeKey, ...kept } = said;
    expect(status).toBe(200);
    expect(events.map(({ context }) => context)).toEqual([
      { segment: { batch: kept } },
      { segment: { batch: kept } },
    ]);
    expect(JSON.stringify(events)).not.toContain(writeKey);
  });

  it('counts its own fields in the size of each of its events', async () => {
    const refused = {
      status: 413,
      body: { code: 'payload_too_large', details: [{ path: '' }] },
      events: [],
    };
    const large = {
      batch: Array.from({ length: 2_500 }, () => good),
      context: { text: 'x'.repeat(3_000_000) },
    };
    const begun = process.cpuUsage();
    expect(await send('/v1/batch', large)).toMatchObject(refused);
    const { user, system } = process.cpuUsage(begun);
    expect((user + system) / 1_000_000).toBeLessThan(5); // minutes if each event were created first
    expect(await send('/v1/batch', { ...large, context: { text: 'x'.repeat(2_000) } })).toMatchObject(
      refused,
    );
    expect(await send('/v1/batch', { ...large, context: { text: 'x' } })).toMatchObject(TAKEN);
  });

  it('is 400 if it is not an array or has too many calls', async () => {
    expect(await send('/v1/batch', track)).toMatchObject({ status: 400 });
    expect(await send('/v1/batch', { batch: {} })).toMatchObject({ status: 400 });
    const many = Array.from({ length: 2_501 }, () => good);
    expect(await send('/v1/batch', { batch: many })).toMatchObject({ status: 400, events: [] });
  });

  it('is 429 with Retry-After and entirely refused for a key beyond its rate limit', async () => {
    let now = 0;
    const events = new TokenBuckets({ perSecond: 1, burst: 2, clock: () => now });
    const limited = await openTestGateway({ folder: test.folder, dependencies: { limits: { events } } });
    onTestFinished(() => limited.close());
    const batchOf = async (size: number) =>
      limited.app.inject({
        method: 'POST',
        url: '/v1/batch',
        headers: basic(key),
        payload: { batch: Array.from({ length: size }, () => good) },
      });
    expect((await batchOf(2)).statusCode).toBe(200);
    const refused = await batchOf(1);
    expect([refused.statusCode, refused.headers['retry-after']]).toEqual([429, '1']);
    expect(refused.json()).toMatchObject({ error: 'too many requests', code: 'too_many_requests' });
    now += 1_000;
    expect((await batchOf(1)).statusCode).toBe(200);
  });

  it('is 503 with Retry-After and the message ids for the retry while the log does not answer', async () => {
    const append = vi.spyOn(test.dependencies.log, 'append').mockRejectedValue(new Unavailable('down'));
    const answer = await test.app.inject({
      method: 'POST',
      url: '/v1/batch',
      headers: basic(key),
      payload: { batch: [{ ...good, messageId: 'm' }] },
    });
    expect(append).toHaveBeenCalled();
    expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '1']);
    expect(answer.json()).toEqual({
      error: 'unavailable',
      code: 'unavailable',
      message: 'unavailable',
      message_ids: ['m'],
    });
  });
});

describe('the client’s address', () => {
  const PLACE = '203.0.113.77';
  const sendFrom = async (of: object, context?: object) => {
    const raw = await owner.writeKey({ ...of });
    const append = vi.spyOn(test.dependencies.log, 'append').mockClear();
    for (const [url, headers, payload] of [
      ['/v1/track', basic(raw), { ...track, context }],
      [
        `/api/v1/workspaces/${owner.workspaceId}/events/track`,
        { authorization: `Bearer ${raw}` },
        { user_id: 'u', event: 'Paid', context: context ?? null },
      ],
    ] as const)
      await test.app.inject({ method: 'POST', url, headers, payload, remoteAddress: PLACE });
    return append.mock.calls
      .flatMap(([, entries]) => entries)
      .map(({ value }) => (JSON.parse(value) as { context?: { ip?: unknown } }).context?.ip);
  };

  it('is added by a key with `collect_ip`, unless the event has an address or excludes it', async () => {
    expect(await sendFrom({ collect_ip: true })).toEqual([PLACE, PLACE]);
    expect(await sendFrom({ collect_ip: true }, { locale: 'de' })).toEqual([PLACE, PLACE]);
    expect(await sendFrom({ collect_ip: true }, { ip: '0.0.0.0' })).toEqual(['0.0.0.0', '0.0.0.0']);
    expect(await sendFrom({ collect_ip: true }, { ip: null })).toEqual([null, null]);
  });

  it.each(['203.0.113.8,', '203.0.113.8, unknown', '203.0.113.8, _hidden', ', ,'])(
    'was that of a proxy that does not say for which client it calls: an event has none after %s',
    async (forwarded) => {
      const proxied = await openTestGateway({ env: { TRUST_PROXY: '10.0.0.0/8' } });
      onTestFinished(() => proxied.close());
      const raw = await (await proxied.openWorkspace()).writeKey({ collect_ip: true });
      const append = vi.spyOn(proxied.dependencies.log, 'append');
      for (const said of [forwarded, '203.0.113.8'])
        await proxied.app.inject({
          method: 'POST',
          url: '/v1/track',
          headers: { ...basic(raw), 'x-forwarded-for': said },
          payload: track,
          remoteAddress: '10.0.0.7',
        });
      const values = append.mock.calls
        .flatMap(([, entries]) => entries)
        .map(({ value }) => JSON.parse(value));
      expect(values.map(({ context }) => context?.ip)).toEqual([undefined, '203.0.113.8']);
    },
  );

  it('is not added by another key', async () => {
    expect(await sendFrom({})).toEqual([undefined, undefined]);
    expect(await sendFrom({ collect_ip: false }, { locale: 'de' })).toEqual([undefined, undefined]);
  });
});
