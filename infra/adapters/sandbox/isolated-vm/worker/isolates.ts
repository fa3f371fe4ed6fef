import type { Frame } from '../frames.ts';
import type { WorkerSettings } from '../limits.ts';
import { type LoadFault, type Report, reportFrame, type Task } from '../messages.ts';
import { Isolate, type Run } from './isolate.ts';

/** An isolate in use. */
interface Kept {
  readonly isolate: Isolate;
  /** What it has loaded, by id: the number to run it by. A source that does not compile never will. */
  readonly programs: Map<string, number | LoadFault>;
  heapMb: number;
  runs: number;
}

const IDLE = { wallMs: 0, cpuMs: 0, loadMs: 0 };

/** The isolates of a worker, one an owner, the least recently used given up first. Does one task at a time. */
export class Isolates {
  readonly #settings: WorkerSettings;
  /** By owner, in the order of their last use. */
  readonly #kept = new Map<string, Kept>();

  constructor(settings: WorkerSettings) {
    this.#settings = settings;
  }

  /** Does a task and says what to answer. */
  async answer(task: Task, texts: string): Promise<Frame> {
    if (!task.alone) return this.#run(task, texts);
    return task.source === undefined ? missing() : this.#doAlone(task, task.source, texts);
  }

  /** In an isolate that nobody used before, nor will. */
  async #doAlone(task: Task, source: string, texts: string): Promise<Frame> {
    const began = beginning();
    const isolate = new Isolate(this.#settings);
    const loaded = await isolate.load(source);
    const figures = began();
    const isLoaded = typeof loaded === 'number';
    const run = isLoaded && task.op === 'run' ? await isolate.run(loaded, task, texts) : undefined;
    isolate.dispose();
    if (!isLoaded) return unloadable(loaded, figures);
    return run === undefined ? reportFrame({ stop: 'ended', ...figures }) : frameOf(run, figures.loadMs);
  }

  async #run(task: Task, texts: string): Promise<Frame> {
    const { owner, program, source } = task;
    let known = this.#kept.get(owner)?.programs.get(program);
    let figures = IDLE;
    if (known === undefined) {
      if (source === undefined) return missing();
      const began = beginning();
      known = await this.#load(owner, program, source);
      figures = began();
    }
    if (typeof known !== 'number') return unloadable(known, figures);
    const kept = this.#use(owner);
    const run = await kept.isolate.run(known, task, texts);
    this.#account(owner, kept, task, run);
    return frameOf(run, figures.loadMs);
  }

  async #load(owner: string, program: string, source: string): Promise<number | LoadFault> {
    const { isolate, programs } = this.#use(owner);
    const loaded = await isolate.load(source);
    const isNew = isolate.programs === 1;
    if (typeof loaded === 'number' || (isNew && loaded.kind === 'compile')) {
      programs.set(program, loaded);
      return loaded;
    }
    this.#giveUp(owner);
    // What others took of its memory may be to blame: only a fault in a new isolate is the source's own.
    return isNew ? loaded : this.#load(owner, program, source);
  }

  /** The owner's isolate, made when there is none, as the one used last. */
  #use(owner: string): Kept {
    const kept = this.#kept.get(owner) ?? {
      isolate: new Isolate(this.#settings),
      programs: new Map<string, number | LoadFault>(),
      heapMb: 0,
      runs: 0,
    };
    this.#kept.delete(owner);
    this.#kept.set(owner, kept);
    this.#trim();
    return kept;
  }

  /** Gives up an isolate that is broken, old or full, so that what one event left behind does not fail a later one. */
  #account(owner: string, kept: Kept, task: Task, run: Run): void {
    const { recycleAfter, recycleAboveMb, recycleAbovePrograms } = this.#settings.limits;
    const { isolate } = kept;
    kept.runs += task.events;
    kept.heapMb = run.stop === 'ended' && !isolate.isDisposed ? isolate.heapMb : Number.POSITIVE_INFINITY;
    const isOld = kept.runs > recycleAfter || isolate.programs > recycleAbovePrograms;
    if (isOld || kept.heapMb > recycleAboveMb) this.#giveUp(owner);
    this.#trim();
  }

  #trim(): void {
    const { maxIsolates, maxIsolatesMb } = this.#settings.limits;
    let heapMb = 0;
    for (const kept of this.#kept.values()) heapMb += kept.heapMb;
    for (const [owner, kept] of this.#kept) {
      const last = this.#kept.size === 1;
      if (last || (this.#kept.size <= maxIsolates && heapMb <= maxIsolatesMb)) return;
      heapMb -= kept.heapMb;
      this.#giveUp(owner);
    }
  }

  #giveUp(owner: string): void {
    this.#kept.get(owner)?.isolate.dispose();
    this.#kept.delete(owner);
  }
}

/** Tells, when it is called, the wall and CPU time since, ms. */
function beginning(): () => typeof IDLE {
  const began = performance.now();
  const cpu = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(cpu);
    const wallMs = performance.now() - began;
    return { wallMs, cpuMs: (user + system) / 1000, loadMs: wallMs };
  };
}

function missing(): Frame {
  return reportFrame({ stop: 'missing', ...IDLE });
}

function frameOf({ stop, wallMs, cpuMs, answers }: Run, loadMs: number): Frame {
  return reportFrame({ stop, wallMs, cpuMs, loadMs }, answers);
}

function unloadable(fault: LoadFault, figures: Pick<Report, 'wallMs' | 'cpuMs' | 'loadMs'>): Frame {
  return reportFrame({ stop: 'unloadable', ...figures, fault });
}
