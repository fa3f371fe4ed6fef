import type { LogEntry, Source } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { dueNow } from './due.ts';

function waiting(...timestamps: number[]): { entry: LogEntry }[] {
  return timestamps.map((timestamp, offset) => ({
    entry: {
      key: '',
      value: '1',
      headers: {},
      timestamp,
      position: { topic: 't', partition: 0, offset, index: 0 },
    },
  }));
}

const inTen: Source = { topic: 't', dueAt: (entry) => entry.timestamp + 10 };

describe('due', () => {
  it('is everything at once without a due time', () => {
    expect(dueNow({ topic: 't' }, waiting(1, 2), 0, 0)).toEqual({ count: 2 });
  });

  it('is the prefix whose time has come', () => {
    expect(dueNow(inTen, waiting(1, 2, 3), 12, 12)).toEqual({ count: 2 });
  });

  it('is nothing while the head waits, also when one behind it is due', () => {
    expect(dueNow(inTen, waiting(9, 1), 12, 12)).toEqual({ count: 0, wakeAt: 19 });
  });

  it('is now when the source cannot say, so that the stage meets the entry', () => {
    const throwing: Source = {
      topic: 't',
      dueAt: () => {
        throw new Error('no due time');
      },
    };
    expect(dueNow(throwing, waiting(1), 0, 0)).toEqual({ count: 1 });
    expect(dueNow({ topic: 't', dueAt: () => Number.NaN }, waiting(1), 0, 0)).toEqual({ count: 1 });
  });

  it('is no later than what was stamped by a clock that is ahead was read, and its delay', () => {
    expect(dueNow(inTen, waiting(5_000), 100, 109)).toEqual({ count: 0, wakeAt: 110 });
    expect(dueNow(inTen, waiting(5_000), 100, 110)).toEqual({ count: 1 });
  });
});
