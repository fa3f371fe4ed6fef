import { expect, it } from 'vitest';
import { loadEveryMs } from './loads.ts';

it.each([
  [undefined, 300_000],
  ['10s', 10_000],
  ['90m', 5_400_000],
  ['24h', 86_400_000],
  ['1s', 10_000],
  ['9999m', 86_400_000],
  ['soon', 86_400_000],
])('load_every of %s is %d ms', (load_every, ms) => {
  expect(loadEveryMs(load_every === undefined ? {} : { load_every })).toBe(ms);
});
