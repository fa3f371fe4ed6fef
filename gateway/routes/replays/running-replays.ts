import {
  type Catalog,
  type Clock,
  type History,
  type HistoryEntry,
  MAX_RUNNING_REPLAYS,
  REPLAY_START_DEADLINE_MS,
  type Replay,
  type ReplayStep,
} from '@tributary/core';
import { quotaExceeded } from '../../limits/change-limits.ts';

/** Ended replays that are remembered, so that they are not queried again. */
const REMEMBERED = 10_000;

interface RunningDependencies extends StepSources {
  readonly catalog: Pick<Catalog, 'state'>;
}

/**
 * Bounds the running replays of a workspace, with one admission at a time. Several gateways may each admit one at the same
 * moment; the reads of all replays are bounded where they run.
 */
export class RunningReplays {
  readonly #dependencies: RunningDependencies;
  readonly #ended = new Set<string>();
  /** The last pending admission of each workspace. */
  readonly #last = new Map<string, Promise<void>>();

  constructor(dependencies: RunningDependencies) {
    this.#dependencies = dependencies;
  }

  /** Creates a replay. 409 when the maximum is running. */
  async admit(workspaceId: string, create: () => Promise<void>): Promise<void> {
    const before = this.#last.get(workspaceId) ?? Promise.resolve();
    const admission = before.then(
      () => this.#admit(workspaceId, create),
      () => this.#admit(workspaceId, create),
    );
    this.#last.set(workspaceId, admission);
    try {
      await admission;
    } finally {
      if (this.#last.get(workspaceId) === admission) this.#last.delete(workspaceId);
    }
  }

  async #admit(workspaceId: string, create: () => Promise<void>): Promise<void> {
    const inQuestion = this.#dependencies.catalog.state
      .entities('replay', workspaceId)
      .filter(({ id, status }) => status !== 'cancelled' && !this.#ended.has(id));
    const steps = await stepsOf(this.#dependencies, workspaceId, inQuestion);
    const running = inQuestion.filter((replay) => this.#runs(replay, steps.get(replay.id)));
    if (running.length >= MAX_RUNNING_REPLAYS) throw quotaExceeded('running_replays', MAX_RUNNING_REPLAYS);
    await create();
  }

  #runs(replay: Replay, entry: HistoryEntry | undefined): boolean {
    const runs = mayGoOn(replay, entry, this.#dependencies.clock());
    if (!runs) this.#remember(replay.id);
    return runs;
  }

  #remember(id: string): void {
    if (this.#ended.size >= REMEMBERED) this.#ended.clear();
    this.#ended.add(id);
  }
}

/** Entries of one page of history. */
const PAGE = 1_000;

interface StepSources {
  readonly history: Pick<History, 'list' | 'get'>;
  readonly clock: Clock;
}

/**
 * The newest step of each replay in history, by the replay's id; none for a replay that has not begun. One query lists a
 * page of them, as each query may go to every index. Lists may be a second behind, so the few replays that may still run
 * are read individually.
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

/** Whether a replay runs or may begin, by its newest step. */
function mayGoOn({ created_at }: Replay, entry: HistoryEntry | undefined, now: number): boolean {
  const step = entry?.body as unknown as ReplayStep | undefined;
  if (step === undefined) return now - Date.parse(created_at) <= REPLAY_START_DEADLINE_MS;
  return step.status === 'running';
}

async function listed(
  history: Pick<History, 'list'>,
  workspaceId: string,
  replays: readonly Replay[],
): Promise<Map<string, HistoryEntry>> {
  const steps = new Map<string, HistoryEntry>();
  // History keeps a replay at the time of its creation.
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
