import type { Catalog, HistoryEntry, HistoryQuery, Replay } from '@tributary/core';
import { expect, it } from 'vitest';
import { RunningReplays } from './replays.ts';

const AT = '2026-01-01T00:00:00.000Z';
const NOW = Date.parse(AT);

/** Replays of a workspace, with the history's entries for each. */
function setUp() {
  const replays: { id: string; status: string; created_at: string; workspace_id: string }[] = [];
  const steps = new Map<string, string>();
  const asked: HistoryQuery[] = [];
  /** Replays that lists still show as running because their entry is late. */
  const late = new Set<string>();
  const running = new RunningReplays({
    catalog: { state: { entities: () => replays as unknown as readonly Replay[] } } as unknown as Catalog,
    history: {
      list: async (query) => {
        asked.push(query);
        const at = (id: string) => Date.parse(replays.find((replay) => replay.id === id)?.created_at ?? '');
        const entries = [...steps]
          .filter(([id]) => at(id) >= (query.since ?? 0) && at(id) < (query.until ?? 0))
          .map(([id, status]) => entryOf(id, late.has(id) ? 'running' : status));
        const from = Number(query.cursor ?? 0);
        const next = from + query.limit;
        return { entries: entries.slice(from, next), ...(next < entries.length && { next: String(next) }) };
      },
      get: async (_, __, id) => {
        const status = steps.get(id);
        return status === undefined ? undefined : entryOf(id, status);
      },
    },
    clock: () => NOW,
  });
  const make = (id: string, created_at = AT) =>
    running.admit('w', async () => {
      replays.unshift({ id, status: 'active', created_at, workspace_id: 'w' });
    });
  return { replays, steps, asked, late, make };
}

function entryOf(id: string, status: string): HistoryEntry {
  return { id, body: { status } } as unknown as HistoryEntry;
}

it('a workspace has two replays under way, and a third is refused until one has ended', async () => {
  const { replays, steps, late, make } = setUp();
  const asked = await Promise.allSettled(['a', 'b', 'c', 'd'].map((id) => make(id)));
  expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected']);
  await expect(make('c')).rejects.toMatchObject({ status: 409, error: 'quota exceeded' });
  steps.set('a', 'running');
  await expect(make('c')).rejects.toMatchObject({ status: 409 });
  steps.set('a', 'finished');
  late.add('a');
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

it('the first after a start asked history for each replay there ever was: it asks for a page of them', async () => {
  const { replays, steps, asked, make } = setUp();
  for (let n = 0; n < 1_500; n++) {
    const created_at = new Date(NOW - n * 60_000).toISOString();
    replays.push({ id: `r${n}`, status: 'active', created_at, workspace_id: 'w' });
    steps.set(`r${n}`, 'finished');
  }
  await make('a');
  const range = { kind: 'replay', workspaceId: 'w', since: NOW - 1_499 * 60_000, until: NOW + 1 };
  expect(asked).toMatchObject([range, { ...range, cursor: '1000' }]);
  await make('b');
  expect(asked.slice(2)).toMatchObject([{ since: NOW, until: NOW + 1 }]);
});
