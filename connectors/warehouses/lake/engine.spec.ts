import { newId } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { mergeable } from './engine.ts';
import { partOf } from './plain.ts';

const HOUR_MS = 3_600_000;
const DAY = Date.parse('2026-11-30');
const MIB = 1_024 ** 2;

/** Files of one minute each, from midnight on. */
const files = (count: number, bytes: number, day = '2026-11-30') =>
  Array.from({ length: count }, (_, at) => {
    const times = [at * 60_000, at * 60_000 + 59_999].map((ms) => String(ms).padStart(8, '0'));
    const name = `order/received_date=${day}/${times.join('-')}-${newId()}.parquet`;
    return { name, bytes, ...partOf(name) };
  });

describe('files that are merged', () => {
  it('are small ones of one day, six hours after their rows were received', () => {
    const small = files(9, 1_000);
    expect(mergeable(small, DAY + 6 * HOUR_MS)).toBeUndefined();
    expect(mergeable(small, DAY + 7 * HOUR_MS)).toEqual(small);
    expect(mergeable(files(9, 9 * MIB), DAY + 7 * HOUR_MS)).toBeUndefined();
    expect(mergeable([...files(4, 1), ...files(4, 1, '2026-11-29')], DAY + 7 * HOUR_MS)).toBeUndefined();
  });

  it('become one file of a bounded size', () => {
    expect(mergeable(files(20, 7 * MIB), DAY + 24 * HOUR_MS)).toHaveLength(4);
  });

  it('are none that a person put there', () => {
    const [file] = files(1, 1_000);
    expect(partOf(file?.name ?? '')).toEqual({ received: { from: DAY, to: DAY + 59_999 } });
    expect(partOf(`${file?.name}.bak`)).toBeUndefined();
  });
});
