import type { Brought } from './recorder.ts';

/** One kill: its time, and the start of the next process. Epoch ms. */
export interface Kill {
  readonly at: number;
  readonly startedAt: number;
}

/** A delivery that was accepted and repeated: the time from its acceptance to the kill, ms. */
export interface Repeat {
  readonly id: string;
  readonly beforeMs: number;
}

export interface Repeats {
  /** The repeats caused by each kill. */
  readonly byKill: readonly (readonly Repeat[])[];
  /** Ids of repeats without a kill in between. */
  readonly unexplained: readonly string[];
}

/** Repeated deliveries at a destination that accepts everything. `kills` are in order. */
export function repeatsOf(brought: readonly Brought[], kills: readonly Kill[]): Repeats {
  const byKill = kills.map((): Repeat[] => []);
  const unexplained: string[] = [];
  const lastAt = new Map<string, number>();
  for (const { id, at } of brought) {
    const before = lastAt.get(id);
    lastAt.set(id, at);
    if (before === undefined) continue;
    const index = kills.findIndex(({ startedAt }) => before <= startedAt && startedAt <= at);
    const kill = kills[index];
    if (kill === undefined) unexplained.push(id);
    else byKill[index]?.push({ id, beforeMs: Math.max(0, kill.at - before) });
  }
  return { byKill, unexplained };
}
