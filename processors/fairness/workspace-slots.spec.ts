import { expect, it, vi } from 'vitest';
import { WorkspaceSlots } from './workspace-slots.ts';

it('an entry waited for ever for slots of entries that waited for it: after a second it begins without one', async () => {
  vi.useFakeTimers();
  try {
    const slots = new WorkspaceSlots(2);
    const first = Promise.withResolvers<void>();
    const held = [1, 2].map(() => slots.run('w', () => first.promise));
    const order: string[] = [];
    const oldest = slots.run('w', async () => {
      order.push('oldest');
      first.resolve();
    });
    await slots.run('another', async () => {
      order.push('another');
    });
    await vi.advanceTimersByTimeAsync(900);
    expect(order).toEqual(['another']);
    await vi.advanceTimersByTimeAsync(200);
    expect(order).toEqual(['another', 'oldest']);
    await Promise.all([oldest, ...held]);
    // All slots are free again, and none too many.
    const running = new Set<number>();
    const gate = Promise.withResolvers<void>();
    const later = [1, 2, 3].map((n) =>
      slots.run('w', async () => {
        running.add(n);
        await gate.promise;
      }),
    );
    await vi.advanceTimersByTimeAsync(0);
    expect([...running]).toEqual([1, 2]);
    gate.resolve();
    await Promise.all(later);
  } finally {
    vi.useRealTimers();
  }
});
