import type { Frame } from '../frames.ts';
import type { WorkerSettings } from '../limits.ts';
import { type LoadFault, type Report, reportFrame, type Task } from '../messages.ts';
import { Program, type Run } from './program.ts';

interface Kept {
  readonly source: string;
  /** Absent until it runs, and after it was disposed of. */
  program?: Program;
  /** A source that does not compile never will. */
  fault?: LoadFault;
  heapMb: number;
  runs: number;
}

const IDLE = { wallMs: 0, cpuMs: 0, loadMs: 0 };

/** The programs of a worker, the least recently used given up first. Does one task at a time. */
export class Programs {
  readonly #settings: WorkerSettings;
  /** In the order of their last use. */
  readonly #kept = new Map<string, Kept>();

  constructor(settings: WorkerSettings) {
    this.#settings = settings;
  }

  /** Does a task and says what to answer. */
  async answer(task: Task, texts: string): Promise<Frame> {
    if (task.op === 'check') return this.#check(task.source ?? '');
    const kept = this.#find(task);
    if (kept === undefined) return reportFrame({ stop: 'missing', ...IDLE });
    if (kept.fault !== undefined) return unloadable(kept.fault, IDLE);
    return task.alone ? this.#runAlone(kept, task, texts) : this.#run(kept, task, texts);
  }

  async #check(source: string): Promise<Frame> {
    const { figures, loaded } = await this.#load(source);
    if (!(loaded instanceof Program)) return unloadable(loaded, figures);
    loaded.dispose();
    return reportFrame({ stop: 'ended', ...figures });
  }

  async #run(kept: Kept, task: Task, texts: string): Promise<Frame> {
    let loadMs = 0;
    if (kept.program === undefined) {
      const { figures, loaded } = await this.#load(kept.source);
      if (!(loaded instanceof Program)) {
        if (loaded.kind === 'compile') kept.fault = loaded;
        return unloadable(loaded, figures);
      }
      kept.program = loaded;
      kept.runs = 0;
      loadMs = figures.wallMs;
    }
    const run = await kept.program.run(task.sizes, texts, task.captureLogs);
    this.#account(kept, task, run);
    return frameOf(run, loadMs);
  }

  async #runAlone(kept: Kept, task: Task, texts: string): Promise<Frame> {
    const { figures, loaded } = await this.#load(kept.source);
    if (!(loaded instanceof Program)) return unloadable(loaded, figures);
    const run = await loaded.run(task.sizes, texts, task.captureLogs);
    loaded.dispose();
    return frameOf(run, figures.wallMs);
  }

  async #load(source: string): Promise<{ figures: typeof IDLE; loaded: Program | LoadFault }> {
    const began = performance.now();
    const cpu = process.cpuUsage();
    const loaded = await Program.load(source, this.#settings);
    const { user, system } = process.cpuUsage(cpu);
    const wallMs = performance.now() - began;
    return { figures: { wallMs, cpuMs: (user + system) / 1000, loadMs: wallMs }, loaded };
  }

  #find(task: Task): Kept | undefined {
    const known = this.#kept.get(task.program);
    const kept =
      known ?? (task.source === undefined ? undefined : { source: task.source, heapMb: 0, runs: 0 });
    if (kept === undefined) return undefined;
    this.#kept.delete(task.program);
    this.#kept.set(task.program, kept);
    this.#trim();
    return kept;
  }

  /** Gives up an isolate that is broken, old or full, so that what one event left behind does not fail a later one. */
  #account(kept: Kept, task: Task, run: Run): void {
    const { recycleAfter, recycleAboveMb } = this.#settings.limits;
    const { program } = kept;
    if (program === undefined) return;
    kept.runs += task.events;
    kept.heapMb = run.stop === 'ended' && !program.isDisposed ? program.heapMb : Number.POSITIVE_INFINITY;
    if (kept.heapMb > recycleAboveMb || kept.runs > recycleAfter) this.#unload(kept);
    this.#trim();
  }

  #trim(): void {
    const { maxPrograms, maxProgramsMb } = this.#settings.limits;
    let heapMb = 0;
    for (const kept of this.#kept.values()) heapMb += kept.heapMb;
    for (const [id, kept] of this.#kept) {
      const last = this.#kept.size === 1;
      if (last || (this.#kept.size <= maxPrograms && heapMb <= maxProgramsMb)) return;
      heapMb -= kept.heapMb;
      this.#unload(kept);
      this.#kept.delete(id);
    }
  }

  #unload(kept: Kept): void {
    kept.program?.dispose();
    delete kept.program;
    kept.heapMb = 0;
  }
}

function frameOf({ stop, wallMs, cpuMs, answers }: Run, loadMs: number): Frame {
  return reportFrame({ stop, wallMs, cpuMs, loadMs }, answers);
}

function unloadable(fault: LoadFault, figures: Pick<Report, 'wallMs' | 'cpuMs' | 'loadMs'>): Frame {
  return reportFrame({ stop: 'unloadable', ...figures, fault });
}
