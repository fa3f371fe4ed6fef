import { randomBytes } from 'node:crypto';
import { getHeapStatistics } from 'node:v8';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { makeKey } from '@tributary/core';
import { afterAll, describe, expect, it } from 'vitest';
import { basic, openSegmentGateway } from '../../helpers/segment-client.ts';

const { test, key } = await openSegmentGateway();
afterAll(() => test.close());

const track = { userId: 'u', event: 'Paid' };
const JSON_BODY = { 'content-type': 'application/json' };

async function processorMs(work: () => Promise<unknown>, times: number): Promise<number> {
  const before = process.cpuUsage();
  for (let n = 0; n < times; n++) await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

describe('a body without a key in a header', () => {
  /** 500 KiB that take long to parse: structure as dense as possible. */
  const costly = (beside: string) =>
    `{"batch":[${Array.from({ length: 32_000 }, (_, n) => `{"k${n}":{}}`).join(',')}],"a":"${beside}"}`;
  const post = async (payload: string, address = '203.0.113.5') => {
    const { statusCode } = await test.app.inject({
      method: 'POST',
      url: '/v1/batch',
      headers: JSON_BODY,
      payload,
      remoteAddress: address,
    });
    return statusCode;
  };

  it('is not parsed if it contains no key', async () => {
    expect(await post('{"batch":[')).toBe(401);
    expect(await post(`{"batch":[],"writeKey":"${key}"`)).toBe(400);
    const nested = { type: 'track', ...track, properties: { writeKey: key } };
    expect(await post(JSON.stringify({ batch: [nested] }))).toBe(401);
    const payload = costly('');
    expect(payload.length).toBeGreaterThan(400_000);
    const parsing = await processorMs(() => Promise.resolve(JSON.parse(payload)), 20);
    const refusing = await processorMs(async () => expect(await post(payload)).toBe(401), 20);
    expect(refusing).toBeLessThan(parsing);
  });

  it('is 429 after too many refusals of its address, and still accepted if its key is valid', async () => {
    const address = '203.0.113.6';
    for (let n = 0; n < 100; n++) expect(await post('{}', address)).toBe(401);
    expect(await post(costly(''), address)).toBe(429);
    const good = { batch: [{ type: 'track', ...track }], writeKey: key };
    expect(await post(JSON.stringify(good), address)).toBe(200);
    // a key that was never issued, and a key of another source inside an event, before the good one
    const [nobodys, others] = [makeKey('write_key', randomBytes(32)).raw, 'trb_wk_prod_x'];
    const event = {
      type: 'track',
      ...track,
      properties: { list: [{ writeKey: nobodys }, { writeKey: others }] },
    };
    expect(await post(JSON.stringify({ batch: [event], writeKey: key }), address)).toBe(200);
  });
});

describe('bodies in progress', () => {
  /** More than would fit if each counted with its maximum size. */
  const MANY = Math.ceil(getHeapStatistics().heap_size_limit / 64 / (4 * 1024 * 1024)) + 1;

  it('count with their actual size once received, and are released once answered', async () => {
    const good = JSON.stringify({ batch: [{ type: 'track', ...track }], writeKey: key });
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(
        Array.from({ length: 2 * MANY }, () =>
          test.app.inject({
            method: 'POST',
            url: '/v1/batch',
            headers: { 'content-type': 'application/json', 'content-encoding': 'gzip', ...basic(key) },
            payload: gzipSync(good),
          }),
        ),
      );
      expect(answers.map(({ statusCode }) => statusCode)).toEqual(answers.map(() => 200));
    }
  });
});

describe('a compressed body without a key in a header', () => {
  /** 256 MiB that take about a second to inflate, compressed to some hundred bytes. */
  const BOMB = brotliCompressSync(Buffer.alloc(256 * 1024 * 1024), {
    params: { [constants.BROTLI_PARAM_QUALITY]: 5 },
  });

  it.each([
    ['br', BOMB],
    ['gzip', gzipSync(Buffer.alloc(64 * 1024 * 1024))],
  ])('was inflated further after its 413: inflation ends at the limit (%s)', async (encoding, payload) => {
    const { statusCode } = await test.app.inject({
      method: 'POST',
      url: '/v1/track',
      headers: { ...JSON_BODY, 'content-encoding': encoding },
      payload,
    });
    expect(statusCode).toBe(413);
    const used = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const { user, system } = process.cpuUsage(used);
    expect((user + system) / 1_000).toBeLessThan(150);
  });

  it('blocked the thread for half a second before its 401: the inflated limit is 512 KiB, and 4 MiB with a key in a header', async () => {
    const event = { type: 'track', ...track, properties: { text: 'x'.repeat(30_000) } };
    const batch = Array.from({ length: 20 }, () => event);
    const payload = gzipSync(JSON.stringify({ batch, writeKey: key }));
    const plain = JSON.stringify({ batch, writeKey: key });
    const post = async (body: string | Buffer, headers: Readonly<Record<string, string>>) => {
      const answer = await test.app.inject({
        method: 'POST',
        url: '/v1/batch',
        headers: { ...JSON_BODY, ...headers },
        payload: body,
      });
      return answer.statusCode;
    };
    const packed = { 'content-encoding': 'gzip' };
    expect([await post(payload, packed), await post(plain, {})]).toEqual([413, 413]);
    expect(await post(payload, { ...packed, ...basic(key) })).toBe(200);
    const half = JSON.stringify({ batch: batch.slice(0, 10), writeKey: key });
    expect([await post(gzipSync(half), packed), await post(half, {})]).toEqual([200, 200]);
  });

  it('was read on the route without credentials: metrics of analytics.js are not inflated', async () => {
    const answer = await test.app.inject({
      method: 'POST',
      url: '/v1/m',
      headers: { ...JSON_BODY, 'content-encoding': 'br' },
      payload: BOMB,
    });
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toEqual({ success: true });
  });
});
