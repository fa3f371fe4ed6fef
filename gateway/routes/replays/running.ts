import {
  type Catalog,
  type Clock,
  type History,
  MAX_RUNNING_REPLAYS,
  REPLAY_BEGINS_WITHIN_MS,
  type Replay,
  type ReplayStep,
} from '@tributary/core';
import { conflict } from '../../http/errors.ts';

/** Replays known to have ended that are remembered: what has ended need not be asked for again. */
const REMEMBERED = 10_000;

interface RunningDependencies {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly history: Pick<History, 'get'>;
  readonly clock: Clock;
}

/**
 * Bounds the replays of a workspace that are under way, one admission after the other. Gateways do not wait for each
 * other, so each may let one in at the same moment; what all of them read is bounded where they run.
 */
export class RunningReplays {
  readonly #dependencies: RunningDependencies;
  readonly #ended = new Set<string>();
  /** The last admission of each workspace that is under way. */
  readonly #last = new Map<string, Promise<void>>();

  constructor(dependencies: RunningDependencies) {
    this.#dependencies = dependencies;
  }

  /** Runs what makes one more replay; 409 where as many as may be are under way. */
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
    let running = 0;
    for (const replay of this.#dependencies.catalog.state.entities('replay', workspaceId)) {
      if (await this.#runs(replay)) running += 1;
      if (running >= MAX_RUNNING_REPLAYS) throw conflict();
    }
    await create();
  }

  async #runs({ id, workspace_id, status, created_at }: Replay): Promise<boolean> {
    if (status === 'cancelled' || this.#ended.has(id)) return false;
    const { history, clock } = this.#dependencies;
    const entry = await history.get('replay', workspace_id, id);
    const step = entry?.body as unknown as ReplayStep | undefined;
    const runs =
      step === undefined
        ? clock() - Date.parse(created_at) <= REPLAY_BEGINS_WITHIN_MS
        : step.status === 'running';
    if (!runs) this.#remember(id);
    return runs;
  }

  #remember(id: string): void {
    if (this.#ended.size >= REMEMBERED) this.#ended.clear();
    this.#ended.add(id);
  }
}
