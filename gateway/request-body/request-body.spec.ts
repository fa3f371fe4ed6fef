import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { unavailable } from '../errors/api-error.ts';
import { readBody } from './request-body.ts';

interface Outcome {
  readonly error: Error | null;
  readonly body: Buffer | undefined;
}

function begin({
  limit = 1_000_000,
  expected,
  most = Number.POSITIVE_INFINITY,
}: Partial<Record<'limit' | 'expected' | 'most', number>>) {
  const payload = new PassThrough();
  const reserved: number[] = [];
  let stop: (error: Error) => void = () => {};
  const outcome = new Promise<Outcome>((resolve) => {
    const reserve = (bytes: number) => {
      if (bytes > most) return unavailable();
      reserved.push(bytes);
      return undefined;
    };
    ({ stop } = readBody(payload, { limit, expected, reserve }, (error, body) => resolve({ error, body })));
  });
  return { payload, reserved, outcome, stop: (error: Error) => stop(error) };
}

describe('a body being read', () => {
  it('equals the sent body in any chunks, and reserves memory before it is buffered', async () => {
    const chunk = fc.uint8Array({ minLength: 1, maxLength: 3_000 });
    await fc.assert(
      fc.asyncProperty(fc.array(chunk, { maxLength: 40 }), fc.boolean(), async (chunks, isChunked) => {
        const whole = Buffer.concat(chunks);
        const { payload, reserved, outcome } = begin(isChunked ? {} : { expected: whole.length });
        for (const one of chunks) payload.write(one);
        payload.end();
        const { error, body } = await outcome;
        expect(error).toBeNull();
        expect(body?.equals(whole)).toBe(true);
        const largest = reserved.at(-1) ?? 0;
        expect(largest).toBeGreaterThanOrEqual(whole.length);
        expect(largest).toBeLessThanOrEqual(Math.max(2 * whole.length, 4_096));
        if (!isChunked) expect(largest).toBeLessThanOrEqual(whole.length);
      }),
    );
  });

  it('counted with its Content-Length: it counts with its received bytes', async () => {
    const { payload, reserved, outcome, stop } = begin({ expected: 900_000 });
    payload.write(Buffer.alloc(7));
    payload.write(Buffer.alloc(13));
    await expect.poll(() => reserved).toEqual([7, 4_096]);
    stop(unavailable());
    expect((await outcome).error).toMatchObject({ status: 503 });
  });

  it('cost a buffer for each chunk of one byte: a few buffers contain all of them', async () => {
    const { payload, reserved, outcome } = begin({});
    for (let n = 0; n < 20_000; n++) payload.write(Buffer.from([n & 255]));
    payload.end();
    expect((await outcome).body).toHaveLength(20_000);
    expect(reserved.length).toBeLessThan(10);
  });

  it.each([
    ['longer than its limit', { limit: 100 }, 413],
    ['longer than may be reserved', { most: 100 }, 503],
    ['shorter than announced', { expected: 5_000 }, 400],
  ])('is refused when it is %s, and the rest of it is discarded', async (_, options, status) => {
    const { payload, outcome } = begin(options);
    for (let n = 0; n < 40; n++) payload.write(Buffer.alloc(100));
    payload.end();
    const { error, body } = await outcome;
    expect(error).toMatchObject({ status });
    expect(body).toBeUndefined();
    await expect.poll(() => payload.readableEnded).toBe(true);
  });

  it('is refused when its client disconnects', async () => {
    const { payload, outcome } = begin({ expected: 10 });
    payload.write('x');
    payload.destroy(new Error('aborted'));
    expect((await outcome).error).toMatchObject({ status: 400 });
  });
});
