import { expect, it } from 'vitest';
import { ApiError } from '../../api/errors.ts';
import { type BulkCall, BulkRuns } from './bulk-runs.ts';

const about = { workspaceId: 'w', action: 'redrive', title: 'answered 503', total: 10 } as const;
const sleep = async () => {};

/** Answers pages of five of ten deliveries. */
function pages(): { readonly call: BulkCall; readonly asked: (string | undefined)[] } {
  const asked: (string | undefined)[] = [];
  return {
    asked,
    call: async (cursor) => {
      asked.push(cursor);
      return { done: 5, cursor: cursor === undefined ? 'second' : null };
    },
  };
}

it('calls with the cursor until the end, and counts the redriven deliveries', async () => {
  const runs = new BulkRuns();
  const { call, asked } = pages();
  await runs.start(about, call);
  expect(asked).toEqual([undefined, 'second']);
  expect(runs.list()).toMatchObject([{ done: 10, total: 10, status: 'finished' }]);
});

it('continues after a 429 or 503, and stops at any other error', async () => {
  const runs = new BulkRuns();
  const waits: number[] = [];
  const errors = [
    new ApiError('too many', { status: 429, retryAfterS: 3 }),
    new ApiError('away', { status: 0 }),
    new ApiError('forbidden', { status: 403 }),
  ];
  const call: BulkCall = async () => {
    const error = errors.shift();
    if (error !== undefined) throw error;
    return { done: 1, cursor: null };
  };
  await runs.start(about, call, {
    sleep: async (ms) => {
      waits.push(ms);
    },
  });
  expect(waits).toEqual([3_000, 2_000]);
  expect(runs.list()).toMatchObject([{ status: 'stopped', done: 0, error: { status: 403 } }]);
  await runs.resume(1);
  expect(runs.list()).toMatchObject([{ status: 'finished', done: 1 }]);
  expect(runs.list()[0]).not.toHaveProperty('error');
});

it('stops at a server that never answers, and keeps its position', async () => {
  const runs = new BulkRuns();
  let isAway = false;
  const cursors: (string | undefined)[] = [];
  const call: BulkCall = async (cursor) => {
    cursors.push(cursor);
    if (isAway) throw new ApiError('away', { status: 503 });
    isAway = cursor === undefined;
    return { done: 4, cursor: cursor === undefined ? 'second' : null };
  };
  await runs.start(about, call, { sleep });
  expect(runs.list()).toMatchObject([{ status: 'stopped', done: 4, cursor: 'second' }]);
  isAway = false;
  await runs.resume(1);
  expect(cursors.at(-1)).toBe('second');
  expect(runs.list()).toMatchObject([{ status: 'finished', done: 8 }]);
});

it('stops between two calls, continues from there, and is dismissed when it does not run', async () => {
  const runs = new BulkRuns();
  const { call, asked } = pages();
  const stopping: BulkCall = async (cursor) => {
    runs.stop(1);
    return call(cursor);
  };
  await runs.start(about, stopping);
  expect(asked).toEqual([undefined]);
  expect(runs.list()).toMatchObject([{ status: 'stopped', done: 5 }]);
  await runs.resume(1);
  expect(runs.list()).toMatchObject([{ status: 'finished', done: 10 }]);
  runs.dismiss(1);
  expect(runs.list()).toEqual([]);
});
