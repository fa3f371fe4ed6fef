import type { Catalog, HistoryEntry, Replay } from '@tributary/core';
import { expect, it } from 'vitest';
import { RunningReplays } from './running.ts';

const AT = '2026-01-01T00:00:00.000Z';
const NOW = Date.parse(AT);

/** Replays of a workspace with what history has of each. */
function setUp() {
  const replays: { id: string; status: string; created_at: string; workspace_id: string }[] = [];
  const steps = new Map<string, string>();
  const running = new RunningReplays({
    catalog: { state: { entities: () => replays as unknown as readonly Replay[] } } as unknown as Catalog,
    history: {
      get: async (_kind, _workspace, id) => {
        const status = steps.get(id);
        return status === undefined ? undefined : ({ body: { status } } as unknown as HistoryEntry);
      },
    },
    clock: () => NOW,
  });
  const make = (id: string, created_at = AT) =>
    running.admit('w', async () => {
      replays.unshift({ id, status: 'active', created_at, workspace_id: 'w' });
    });
  return { replays, steps, make };
}

it('a workspace has two replays under way, and a third is refused until one has ended', async () => {
  const { replays, steps, make } = setUp();
  const asked = await Promise.allSettled(['a', 'b', 'c', 'd'].map((id) => make(id)));
  expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected']);
  await expect(make('c')).rejects.toMatchObject({ status: 409, error: 'conflict' });
  steps.set('a', 'running');
  await expect(make('c')).rejects.toMatchObject({ status: 409 });
  steps.set('a', 'finished');
  await make('c');
  await expect(make('d')).rejects.toMatchObject({ status: 409 });
  for (const replay of replays) if (replay.id === 'b') replay.status = 'cancelled';
  await make('d');
});

it('one that never began and never will does not count', async () => {
  const { make } = setUp();
  const longSince = new Date(NOW - 25 * 3_600_000).toISOString();
  for (const id of ['a', 'b', 'c']) await make(id, longSince);
});
