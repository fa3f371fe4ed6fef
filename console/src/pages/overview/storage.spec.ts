import { expect, it } from 'vitest';
import { bytesText, type Storage, storageWarning } from './storage.ts';

const USED: Storage = {
  state: 'ok',
  over: null,
  received: 1,
  bytes_per_hour: { used: 79, limit: 100 },
  bytes_held: { used: 7_000_000_000_000, limit: null },
};

it('nothing is shown below 80 % of the budgets, or without one', () => {
  expect(storageWarning(USED)).toBeUndefined();
});

it('from 80 % on the figures are shown', () => {
  const used = { ...USED, bytes_per_hour: { used: 55 * 2 ** 30, limit: 64 * 2 ** 30 } };
  expect(storageWarning(used)).toEqual({
    isOver: false,
    title: '85 % of the budget of bytes written in an hour is used',
    text: 'Beyond it events are answered 429: 55.0 GiB of 64.0 GiB.',
  });
});

it.each([
  ['refuse', 'bytes_held', 'answered 429'],
  ['stop_output', 'disk_share', 'accepted and not delivered'],
] as const)('over a budget the consequence of %s is shown', (state, over, text) => {
  expect(storageWarning({ ...USED, state, over })).toMatchObject({
    isOver: true,
    text: expect.stringContaining(text),
  });
});

it.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_536, '1.5 KiB'],
  [300 * 2 ** 20, '300 MiB'],
  [5 * 2 ** 50, '5120 TiB'],
])('%i bytes are %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text);
});
