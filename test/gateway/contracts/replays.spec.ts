import { historyEntryOfReplay, type ReplayStep } from '@tributary/core';
import { describe, expect, it, vi } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();

interface Replay {
  readonly id: string;
  readonly created_at: string;
}

const since = () => new Date(test.clock.now() - 3_600_000).toISOString();

/** A step as written by the history stage. */
async function came(replay: Replay, status: ReplayStep['status'], events: number): Promise<void> {
  const { id, created_at } = replay;
  const step: ReplayStep = {
    replay_id: id,
    workspace_id: String(owner.workspaceId),
    number: 1,
    status,
    cursors: [],
    looked_at: events,
    events,
    created_at,
    at: created_at,
  };
  await test.dependencies.history.put([historyEntryOfReplay(step)]);
}

describe('a list of replays', () => {
  it('asked history for each of them: it asks for the page, and shows how far each is', async () => {
    const { history } = test.dependencies;
    for (let n = 0; n < 5; n++) {
      const replay = await owner.ok<Replay>('POST', './replays', { since: since() });
      if (n < 4) await came(replay, 'finished', n);
    }
    const get = vi.spyOn(history, 'get');
    const list = vi.spyOn(history, 'list');
    const shown = await owner.ok<readonly object[]>('GET', './replays?limit=4');
    expect(shown).toMatchObject([
      { status: 'pending', progress: { events: 0, updated_at: null } },
      ...[3, 2, 1].map((events) => ({ status: 'finished', progress: { events } })),
    ]);
    expect(get).toHaveBeenCalledOnce(); // for a replay started meanwhile
    expect(list).toHaveBeenCalledOnce();
  });
});
