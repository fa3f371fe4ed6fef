import { describe, expect, it } from 'vitest';
import { encodeFrame, FrameReader } from './protocol.ts';

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
