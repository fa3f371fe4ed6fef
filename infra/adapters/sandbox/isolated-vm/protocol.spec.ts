import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS, encodeFrame, FrameReader, limitsFor } from './protocol.ts';

const FRAMES = [
  { head: '{"a":1}', body: '' },
  { head: '', body: 'ä€𝄞'.repeat(1_000) },
  { head: 'x', body: 'y' },
];

describe('FrameReader', () => {
  it.each([1, 3, 7, 1_000, 1_000_000])('assembles frames from pieces of %i bytes', (size) => {
    const stream = Buffer.concat(FRAMES.map(encodeFrame));
    const reader = new FrameReader();
    const read = [];
    for (let at = 0; at < stream.length; at += size)
      read.push(...reader.push(stream.subarray(at, at + size)));
    expect(read).toEqual(FRAMES);
  });

  it('refuses a stream that is not made of frames', () => {
    expect(() => new FrameReader().push(Buffer.from('not a frame at all'))).toThrow(RangeError);
    expect(() => new FrameReader().push(Buffer.from([2, 0, 0, 0, 1, 1]))).toThrow(RangeError);
    expect(() => new FrameReader().push(Buffer.from([4, 0, 0, 0, 9, 0, 0, 0]))).toThrow(RangeError);
  });
});

describe('limitsFor', () => {
  it('returns the default limits for the default settings', () => {
    expect(limitsFor({ eventMs: 100, isolateMib: 64 })).toEqual(DEFAULT_LIMITS);
  });

  it.each([
    [10, 16],
    [1_000, 512],
  ])(
    'stops a stuck run later than a slow one, and keeps an isolate below its process: %s ms, %s MB',
    (eventMs, isolateMib) => {
      const limits = limitsFor({ eventMs, isolateMib });
      expect(limits.watchdogMs).toBeGreaterThan(2 * limits.eventMs);
      expect(limits.recycleAboveMib).toBeLessThan(limits.isolateMib);
      expect(limits.maxIsolatesMib + limits.isolateMib).toBeLessThan(limits.processMib);
      expect(limits.processMib).toBeGreaterThan(256);
    },
  );
});
