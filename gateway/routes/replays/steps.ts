import {
  type Clock,
  type History,
  type HistoryEntry,
  REPLAY_BEGINS_WITHIN_MS,
  type Replay,
  type ReplayStep,
} from '@tributary/core';

/** Entries of a page of history. */
const PAGE = 1_000;

export interface StepSources {
  readonly history: Pick<History, 'list' | 'get'>;
  readonly clock: Clock;
}

/**
 * What history has of the newest steps of some replays of one workspace, by the replay's id, none for one that has not
 * begun. One question for a page of them, as each may go to every index; lists may be a second behind, so those that
 * may go on, which are few, are asked for by themselves.
 */
export async function stepsOf(
  { history, clock }: StepSources,
  workspaceId: string,
  replays: readonly Replay[],
): Promise<ReadonlyMap<string, HistoryEntry>> {
  const steps = await listed(history, workspaceId, replays);
  const open = replays.filter((replay) => mayGoOn(replay, steps.get(replay.id), clock()));
  await Promise.all(
    open.map(async ({ id }) => {
      const newest = await history.get('replay', workspaceId, id);
      if (newest !== undefined) steps.set(id, newest);
    }),
  );
  return steps;
}

/** Whether a replay runs or may begin, by what history has of it. */
export function mayGoOn({ created_at }: Replay, entry: HistoryEntry | undefined, now: number): boolean {
  const step = entry?.body as unknown as ReplayStep | undefined;
  if (step === undefined) return now - Date.parse(created_at) <= REPLAY_BEGINS_WITHIN_MS;
  return step.status === 'running';
}

async function listed(
  history: Pick<History, 'list'>,
  workspaceId: string,
  replays: readonly Replay[],
): Promise<Map<string, HistoryEntry>> {
  const steps = new Map<string, HistoryEntry>();
  // History has a replay where it was asked for.
  const times = replays.map(({ created_at }) => created_at).toSorted();
  const first = times.at(0);
  const last = times.at(-1);
  if (first === undefined || last === undefined) return steps;
  const query = {
    kind: 'replay',
    workspaceId,
    since: Date.parse(first),
    until: Date.parse(last) + 1,
    limit: PAGE,
  } as const;
  for (let cursor: string | undefined; ; ) {
    const { entries, next } = await history.list(cursor === undefined ? query : { ...query, cursor });
    for (const entry of entries) steps.set(entry.id, entry);
    if (next === undefined) return steps;
    cursor = next;
  }
}
