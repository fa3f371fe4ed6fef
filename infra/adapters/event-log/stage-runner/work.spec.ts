import {
  Fenced,
  HEADER,
  InvalidInput,
  NO_LOGGER,
  NO_METRICS,
  type OutputRecord,
  Overloaded,
  Rewind,
  recordBytes,
  type ScopeBytes,
  type StageNote,
  summedCountsIn,
  Tally,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { type CommitThrottle, Committer, type Cursor, failureOf, type OwnedPartition } from './work.ts';

describe('the failure of a stage', () => {
  it('follows from the code of a typed error, never from a message', () => {
    expect(failureOf(new Unavailable('x'))).toBe('repeat');
    expect(failureOf(new Overloaded('x'))).toBe('repeat');
    expect(failureOf(new Rewind(3))).toBe('rewind');
    expect(failureOf(new Fenced('x'))).toBe('restart');
    expect(failureOf(new InvalidInput('x'))).toBe('throw');
    expect(failureOf(new Error('unavailable'))).toBe('throw');
    expect(failureOf({ code: 'unavailable' })).toBe('throw');
    expect(failureOf(undefined)).toBe('throw');
  });
});

const at = (offset: number, index = 0): Cursor => ({ offset, index });

function committerOf(
  committed: Cursor,
  stage: ConstructorParameters<typeof Committer>[0],
  throttle: CommitThrottle | undefined,
  commit: OwnedPartition['commit'],
): Committer {
  const owned = { topic: 't', partition: 0, committed, commit, ...(throttle && { throttle }) };
  const space = { isFull: () => false, isSpent: () => false };
  const backoff = { firstMs: 1, capMs: 1 };
  return new Committer(stage, owned, { space, backoff, metrics: NO_METRICS, logger: NO_LOGGER });
}

function setUp(answers: (Error | undefined)[], throttle?: CommitThrottle, commitPauseMs?: number) {
  const stage = { name: 's', ...(commitPauseMs === undefined ? {} : { commitPauseMs }) };
  const committer = committerOf(at(5), stage, throttle, async () => {
    const answer = answers.shift();
    if (answer) throw answer;
  });
  return { committer };
}

const never = new AbortController().signal;

const NOTE: StageNote = {
  event: {
    messageId: 'm',
    kind: {
      workspaceId: 'w',
      environment: 'production',
      source: '',
      key: '',
      type: 'track',
      name: 'Paid',
    },
    receivedAt: 0,
  },
  rule: '',
  destination: '',
  measures: 'received',
};

describe('the count of entries', () => {
  function setUpCounting(answers: (Error | undefined)[], throttle?: CommitThrottle) {
    const commits: (readonly OutputRecord[])[] = [];
    const committer = committerOf(at(0), { name: 's' }, throttle, async (_from, _to, outputRecords) => {
      const answer = answers.shift();
      if (answer) throw answer;
      commits.push(outputRecords);
    });
    const counted = () =>
      commits.map((outputRecords) =>
        outputRecords
          .filter(({ topic }) => topic === TOPIC.funnelCounts)
          .flatMap((record) => summedCountsIn([{ ...record, timestamp: 0 }]).increments)
          .reduce((sum, { count }) => sum + count, 0),
      );
    return { committer, commits, counted };
  }

  it('waits for a commit as positions do, and is in it once', async () => {
    const { committer, counted } = setUpCounting([], { pauseAfter: () => 10, positionMs: 60_000 });
    await committer.reach(at(1), never, Tally.of([NOTE]));
    await committer.reach(at(2), never, Tally.of([NOTE]));
    await committer.reach(at(3), never, Tally.of([NOTE, NOTE]));
    expect(counted()).toEqual([1]);
    await committer.commit(at(4), [], never, Tally.of([NOTE]));
    await committer.commitReached(never);
    await committer.commit(at(5), [], never);
    expect(counted()).toEqual([1, 4, 0]);
  });

  it('is dropped with work that begins again, and of entries that were committed before', async () => {
    const { committer, counted } = setUpCounting([], { pauseAfter: () => 10, positionMs: 60_000 });
    await committer.commit(at(1), [], never, Tally.of([NOTE]));
    await committer.reach(at(3), never, Tally.of([NOTE, NOTE]));
    committer.forget();
    await committer.commit(at(1), [], never, Tally.of([NOTE]));
    await committer.commit(at(2), [], never, Tally.of([NOTE]));
    expect(counted()).toEqual([1, 1]);
  });

  it('and of bytes is in the commit that writes them, once through a repetition, and reported when it is durable', async () => {
    const commits: (readonly OutputRecord[])[] = [];
    const answers = [new Unavailable('x'), undefined];
    const reported: ScopeBytes[] = [];
    const committed = (bytes: Iterable<ScopeBytes>) => void reported.push(...bytes);
    const stage = { name: 's', committed };
    const committer = committerOf(at(0), stage, undefined, async (_from, _to, outputRecords) => {
      expect(reported).toEqual([]);
      const answer = answers.shift();
      if (answer) throw answer;
      commits.push(outputRecords);
    });
    const written = { topic: 'out', key: 'k', value: '"é"', headers: { [HEADER.workspaceId]: 'w' } };
    await committer.commit(
      at(3),
      [written, written],
      never,
      Tally.of([{ scope: 'w', received: 5, written: 0 }]),
    );
    await committer.commit(at(3), [written], never);
    expect(commits).toHaveLength(1);
    const counts = commits.flat().filter(({ topic }) => topic === TOPIC.funnelCounts);
    const { bytes } = summedCountsIn(counts.map((record) => ({ ...record, timestamp: 0 })));
    expect(bytes).toEqual([{ scope: 'w', hour: 0, received: 5, written: 2 * recordBytes(written) }]);
    expect(reported).toEqual([{ scope: 'w', received: 5, written: 2 * recordBytes(written) }]);
  });
});

describe('committer', () => {
  it('made a commit of each event of a slow queue: a stage names the least pause, of whatever engine', async () => {
    for (const pauseAfter of [() => 0, () => 10]) {
      const { committer } = setUp([], { pauseAfter, positionMs: 60_000 }, 5_000);
      expect(committer.pauseMs()).toBe(0);
      await committer.commit(at(6), [], never);
      expect(committer.pauseMs()).toBeGreaterThan(4_000);
    }
    const { committer } = setUp([], { pauseAfter: () => 9_000, positionMs: 60_000 }, 5_000);
    await committer.commit(at(6), [], never);
    expect(committer.pauseMs()).toBeGreaterThan(8_000);
  });
});
