import type { Chosen } from './chosen.ts';
import type { PackDefinition, PackDestination } from './pack.ts';

export interface Started {
  readonly definition: PackDefinition;
  readonly running: PackDestination;
}

/** The destinations of the pack that this process has started, each with its first job. */
export class StartedDestinations {
  readonly #start: (name: Chosen) => Started;
  readonly #started = new Map<Chosen, Started>();

  constructor(start: (name: Chosen) => Started) {
    this.#start = start;
  }

  /**
   * Runs a job on one. At the end of each the answers that the pack keeps are dropped: it would keep them for ever, and
   * reads none of them. Under a steady load there is always another job, so nothing waits for the last.
   */
  async use<T>(name: Chosen, job: (started: Started) => Promise<T>): Promise<T> {
    const started = this.#started.get(name) ?? this.#start(name);
    this.#started.set(name, started);
    try {
      return await job(started);
    } finally {
      started.running.responses = [];
    }
  }
}
