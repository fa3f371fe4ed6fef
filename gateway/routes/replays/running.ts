import { type Catalog, type HistoryEntry, MAX_RUNNING_REPLAYS, type Replay } from '@tributary/core';
import { quotaExceeded } from '../../limits/change-limits.ts';
import { mayGoOn, type StepSources, stepsOf } from './steps.ts';

/** Replays known to have ended that are remembered: what has ended need not be asked for again. */
const REMEMBERED = 10_000;

interface RunningDependencies extends StepSources {
  readonly catalog: Pick<Catalog, 'state'>;
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
