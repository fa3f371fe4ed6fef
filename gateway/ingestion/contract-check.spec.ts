import type { CanonicalEvent, ContractVerdict } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { BatchEvent } from './batch.ts';
import { createBatchContractCheck } from './contract-check.ts';

const STAYS = new AbortController().signal;
const EVALUATION_MS = 3;

/** A slow contract that blocks the events marked for it. */
function setUp() {
  const evaluated: string[] = [];
  const evaluate = (_: unknown, { message_id, user_id }: CanonicalEvent): ContractVerdict => {
    evaluated.push(message_id);
    const until = performance.now() + EVALUATION_MS;
    while (performance.now() < until);
    return user_id === 'blocked'
      ? {
          outcome: 'rejected',
          violations: [{ kind: 'type', path: '/a', message: 'is wrong', action: 'blocked' }],
        }
      : { outcome: 'accepted', violations: [] };
  };
  const checkBatch = createBatchContractCheck({
    catalog: { state: { contractAt: () => ({}), workspace: () => undefined }, position: 0 },
    contracts: { evaluate, *prepare() {} },
  } as never);
  return { evaluated, checkBatch };
}

const item = (index: number, user_id = 'u', name = 'm') =>
  ({ ok: true, event: { message_id: `${name}${index}`, user_id }, text: '', key: '', index }) as BatchEvent;
const batch = (name: string, size = 20) => Array.from({ length: size }, (_, index) => item(index, 'u', name));

/** The largest number of evaluations in one turn of the event loop. */
async function mostAtOnce(evaluated: readonly string[], work: Promise<unknown>): Promise<number> {
  let most = 0;
  let before = evaluated.length;
  const look = () => {
    most = Math.max(most, evaluated.length - before);
    before = evaluated.length;
    ticking = setImmediate(look);
  };
  let ticking = setImmediate(look);
  await work;
  clearImmediate(ticking);
  return Math.max(most, evaluated.length - before);
}

describe('batches that are judged', () => {
  it('leave the events of a blocking contract in their places among the other refusals', async () => {
    const { checkBatch } = setUp();
    const invalid = (index: number) => ({ index, error: 'invalid request', details: [] });
    const events = [item(0), item(2, 'blocked'), item(3), item(5, 'blocked')];
    const read = await checkBatch({ events, rejected: [invalid(1), invalid(4)] }, 'w', STAYS);
    expect(read.events.map(({ index }) => index)).toEqual([0, 3]);
    const details = [{ path: '/a', message: 'is wrong' }];
    expect(read.rejected).toEqual([
      invalid(1),
      { index: 2, error: 'event blocked', details },
      invalid(4),
      { index: 5, error: 'event blocked', details },
    ]);
  });

  it('hold the thread some ms at a time, however many there are', async () => {
    const { checkBatch, evaluated } = setUp();
    const all = ['a', 'b', 'c', 'd'].map((name) =>
      checkBatch({ events: batch(name), rejected: [] }, name, STAYS),
    );
    expect(await mostAtOnce(evaluated, Promise.all(all))).toBeLessThanOrEqual(2);
    expect(evaluated).toHaveLength(80);
    expect(new Set(evaluated.slice(0, 10).map((id) => id[0]))).toEqual(new Set(['a', 'b', 'c', 'd']));
  });

  it('are evaluated no further once the caller is gone', async () => {
    const { checkBatch, evaluated } = setUp();
    const leaving = new AbortController();
    const left = checkBatch({ events: batch('a', 200), rejected: [] }, 'w', leaving.signal);
    const stays = checkBatch({ events: batch('b'), rejected: [] }, 'w', STAYS);
    setImmediate(() => leaving.abort());
    await expect(left).rejects.toMatchObject({ status: 429 });
    expect((await stays).events).toHaveLength(20);
    expect(evaluated.length).toBeLessThan(100);
  });
});
