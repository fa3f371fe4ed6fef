import { Overloaded, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { GroupCommit } from './group-commit.ts';

interface PendingCommit {
  readonly group: readonly number[];
  readonly done: (results?: readonly (string | Error)[]) => void;
  readonly fail: (reason: unknown) => void;
}

function setUp(
  limits: {
    maxInFlight?: number;
    eagerRequests?: number;
    maxUnconfirmedBytes?: number;
    maxGroupBytes?: number;
  } = {},
) {
  const pending: PendingCommit[] = [];
  const commit = new GroupCommit<number, string>({
    maxInFlight: 1,
    maxUnconfirmedBytes: 1_000,
    maxGroupBytes: 1_000,
    ...limits,
    commit: (group) =>
      new Promise((resolve, fail) =>
        pending.push({ group, done: (results = group.map((n) => `done ${n}`)) => resolve(results), fail }),
      ),
  });
  return { commit, pending, groups: () => pending.map(({ group }) => group) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('group commit', () => {
  it('sends the requests of one turn of the event loop at once, and those that arrive meanwhile as the next group', async () => {
    const { commit, pending, groups } = setUp();
    const first = [commit.add(1, 1), commit.add(2, 1)];
    await turn();
    expect(groups()).toEqual([[1, 2]]);

    const second = [commit.add(3, 1), commit.add(4, 1)];
    await turn();
    expect(groups()).toEqual([[1, 2]]);

    pending[0]?.done();
    await Promise.all(first);
    await turn();
    expect(groups()).toEqual([
      [1, 2],
      [3, 4],
    ]);
    pending[1]?.done();
    await Promise.all(second);
  });

  it('commits a burst in pieces while it is still being read, when configured', async () => {
    const { commit, groups } = setUp({ maxInFlight: 2, eagerRequests: 2 });
    void Promise.allSettled([1, 2, 3, 4, 5].map((request) => commit.add(request, 1)));
    expect(groups()).toEqual([
      [1, 2],
      [3, 4],
    ]);
    await turn();
    expect(groups()).toHaveLength(2);
  });

  it('keeps groups under their bound, but takes a larger request alone', async () => {
    const { commit, pending, groups } = setUp({ maxGroupBytes: 10, maxInFlight: 4 });
    const all = [commit.add(1, 6), commit.add(2, 6), commit.add(3, 50), commit.add(4, 1), commit.add(5, 1)];
    await turn();
    expect(groups()).toEqual([[1], [2], [3], [4, 5]]);
    for (const group of pending) group.done();
    await Promise.all(all);
  });

  it('rejects with Overloaded beyond the bound, accepts nothing, and recovers', async () => {
    const { commit, pending, groups } = setUp({ maxUnconfirmedBytes: 10 });
    const first = commit.add(1, 8);
    await expect(commit.add(2, 3)).rejects.toBeInstanceOf(Overloaded);
    await turn();
    pending[0]?.done();
    await first;
    const third = commit.add(3, 3);
    await turn();
    expect(groups()).toEqual([[1], [3]]);
    pending[1]?.done();
    await third;
  });

  it('rejects every request of a failed group with Unavailable and continues with the next', async () => {
    const { commit, pending } = setUp();
    const failed = Promise.allSettled([commit.add(1, 1), commit.add(2, 1)]);
    await turn();
    const next = commit.add(3, 1);
    pending[0]?.fail(new Error('disk is full'));
    for (const outcome of await failed) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(Unavailable) });
    }
    await turn();
    pending[1]?.done();
    await next;
  });

  it('gives each request its own result, and fails one alone for which there is an error', async () => {
    const { commit, pending } = setUp();
    const [first, second] = [commit.add(1, 1), commit.add(2, 1)];
    await turn();
    pending[0]?.done(['one', new Error('refused')]);
    expect(await first).toBe('one');
    await expect(second).rejects.toThrow('refused');
  });
});
