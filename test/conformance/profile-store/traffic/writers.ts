import { Child } from '../../../helpers/child.ts';
import type { WriterLine, WritersTask } from '../programs/writer.ts';
import type { ProfileStoreHarness } from '../suite/harness.ts';
import type { Traffic } from './operations.ts';

const WRITER = new URL('../programs/writer.ts', import.meta.url);

export interface WritersOptions {
  readonly harness: ProfileStoreHarness;
  readonly settings: string;
  readonly traffic: Traffic;
  readonly processes: number;
  readonly writersOfProcess: number;
  readonly operationsOfWriter: number;
  /** Kills of a process by SIGKILL, at moments spread over the run. */
  readonly kills: number;
  readonly seesItsWrites: boolean;
}

/** The output of all writers, including the killed ones. */
export interface Evidence {
  readonly lines: readonly WriterLine[];
  readonly kills: number;
}

/**
 * Runs processes of writers through the traffic while some of them are killed. A killed process is restarted
 * at its first operations without an answer; those may or may not have been carried out.
 */
export async function runWriters(options: WritersOptions): Promise<Evidence> {
  const { processes, kills } = options;
  const total = options.processes * options.writersOfProcess * options.operationsOfWriter;
  const crews = Array.from({ length: processes }, (_, at) => new Crew(options, at));
  try {
    for (const crew of crews) crew.start();
    let killed = 0;
    while (crews.some((crew) => !crew.done)) {
      await Promise.race([...crews.map((crew) => crew.ended()), tick()]);
      for (const crew of crews) crew.startAgainIfKilled();
      const answered = crews.reduce((sum, crew) => sum + crew.answered, 0);
      // The last tenth runs without kills, so that every kill interrupts something.
      const due = Math.floor((answered / (0.9 * total)) * kills + 0.5);
      const victims = crews.filter((crew) => crew.running && !crew.done);
      const victim = victims[Math.floor(Math.random() * victims.length)];
      if (killed < Math.min(due, kills) && victim !== undefined) {
        await victim.kill();
        killed += 1;
      }
    }
    return { lines: crews.flatMap((crew) => crew.lines()), kills: killed };
  } finally {
    await Promise.all(crews.map((crew) => crew.kill()));
  }
}

type Answer = Extract<WriterLine, { kind: 'written' | 'deleted' | 'unlinked' | 'split' }>;

/** Whether the line ends an operation. */
export function isAnswer(line: WriterLine): line is Answer {
  return ['written', 'deleted', 'unlinked', 'split'].includes(line.kind);
}

const tick = () => new Promise((resolve) => setTimeout(resolve, 15));

/** One process of writers and its restarts after kills. */
class Crew {
  readonly #options: WritersOptions;
  readonly #first: number;
  readonly #past: WriterLine[] = [];
  #child: Child | undefined;
  #killed = false;
  #finished: Promise<void> = Promise.resolve();
  done = false;

  constructor(options: WritersOptions, at: number) {
    this.#options = options;
    this.#first = at * options.writersOfProcess;
  }

  get running(): boolean {
    return this.#child !== undefined;
  }

  get answered(): number {
    return [...this.#next().values()].reduce((sum, next) => sum + next, 0);
  }

  start(): void {
    const { harness, settings, traffic, operationsOfWriter, seesItsWrites } = this.#options;
    const writers = [...this.#next()].map(([writer, from]) => ({ writer, from, to: operationsOfWriter }));
    const task: WritersTask = { traffic, writers, seesItsWrites };
    const child = new Child(WRITER, [harness.module, settings, JSON.stringify(task)]);
    this.#child = child;
    this.#killed = false;
    this.#finished = child.finished().then(
      () => {
        if (this.#child === child) this.#leave();
        this.done = true;
      },
      (error) => {
        if (!this.#killed) throw error;
      },
    );
    this.#finished.catch(() => {});
  }

  /** Rejects when the process failed on its own. */
  ended(): Promise<void> {
    return this.running ? this.#finished : new Promise(() => {});
  }

  startAgainIfKilled(): void {
    if (!this.done && !this.running) this.start();
  }

  async kill(): Promise<void> {
    if (this.#child === undefined) return;
    this.#killed = true;
    await this.#child.kill();
    this.#leave();
  }

  lines(): readonly WriterLine[] {
    return [...this.#past, ...((this.#child?.lines ?? []) as readonly WriterLine[])];
  }

  #leave(): void {
    this.#past.push(...((this.#child?.lines ?? []) as readonly WriterLine[]));
    this.#child = undefined;
  }

  /** Each writer's next operation. */
  #next(): ReadonlyMap<number, number> {
    const writers = Array.from({ length: this.#options.writersOfProcess }, (_, n) => this.#first + n);
    const next = new Map(writers.map((writer) => [writer, 0]));
    for (const line of this.lines()) if (isAnswer(line)) next.set(line.writer, line.n + 1);
    return next;
  }
}
