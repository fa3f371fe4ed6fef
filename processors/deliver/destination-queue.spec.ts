import { describe, expect, it } from 'vitest';
import { gather } from './destination-queue.ts';

const waiting = (count: number, bytes = 100) =>
  Array.from({ length: count }, (_, n) => ({ id: n, bytes, enqueuedAt: 1_000 + n }));

describe('the content of one call', () => {
  it('is cut at its deliveries', () => {
    const { batch, waitMs } = gather(waiting(5), { events: 3, ms: 1_000 }, 1_010);
    expect(batch.map(({ id }) => id)).toEqual([0, 1, 2]);
    expect(waitMs).toBe(0);
  });

  it('is cut at its bytes, but one alone may be larger', () => {
    expect(gather(waiting(5), { events: 10, bytes: 250, ms: 1_000 }, 1_010)).toMatchObject({
      batch: [{ id: 0 }, { id: 1 }],
      waitMs: 0,
    });
    expect(gather(waiting(2, 900), { events: 10, bytes: 250, ms: 1_000 }, 1_010)).toMatchObject({
      batch: [{ id: 0 }],
      waitMs: 0,
    });
  });

  it('waits for others as long as its first delivery may, where the connector allows it', () => {
    expect(gather(waiting(2), { events: 10, ms: 1_000 }, 1_200).waitMs).toBe(800);
    expect(gather(waiting(2), { events: 10, ms: 1_000 }, 2_000).waitMs).toBe(0);
    expect(gather(waiting(2), { events: 10 }, 1_000).waitMs).toBe(0);
  });

  it('holds at least one, whatever a connector states', () => {
    expect(gather(waiting(2), { events: 0 }, 1_000).batch).toHaveLength(1);
    expect(gather([], { events: 5, ms: 10 }, 1_000)).toEqual({ batch: [], waitMs: 0 });
  });
});
