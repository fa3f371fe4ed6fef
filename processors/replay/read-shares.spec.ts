import { expect, it } from 'vitest';
import { ReadShares } from './read-shares.ts';

/** Bytes that so many replays read in ten seconds, each with a step every 250 ms that reads all it may. */
function readBy(replays: number): readonly number[] {
  const time = { now: 0 };
  const shares = new ReadShares(16_000, 4_000, () => time.now);
  const read = Array.from({ length: replays }, () => 0);
  for (; time.now < 10_000; time.now += 250)
    for (let n = 0; n < replays; n++) {
      if (shares.of(`${n}`) <= 0) continue;
      const piece = 4_000 / replays + 256; // a read goes over its bound
      shares.take(`${n}`, piece);
      read[n] = (read[n] ?? 0) + piece;
    }
  return read;
}

it.each([1, 2, 50])('%i replays together read no more than one, and each its part', (replays) => {
  const read = readBy(replays);
  const sum = read.reduce((all, bytes) => all + bytes, 0);
  const overdrawn = replays * 256 + 4_000 * (1 + Math.log(replays)); // while the first come in
  expect(sum).toBeGreaterThan(0.8 * 160_000);
  expect(sum).toBeLessThanOrEqual(160_000 + overdrawn + 4_000);
  expect(Math.min(...read)).toBeGreaterThan(0.5 * Math.max(...read));
});

it('shares only among those that run', () => {
  const time = { now: 0 };
  const shares = new ReadShares(16_000, 4_000, () => time.now);
  expect(shares.of('a')).toBe(4_000);
  expect(shares.of('b')).toBe(2_000);
  shares.take('a', 4_000);
  time.now = 250;
  expect(shares.of('a')).toBe(2_000);
  time.now = 5_200;
  expect(shares.of('a')).toBe(4_000);
});
