// The program of a worker process: requests on stdin, reports on stdout, user code only inside isolates.
import { writeFileSync } from 'node:fs';
import type { WorkerSettings } from '../limits.ts';
import {
  encodeFrame,
  type Frame,
  FrameReader,
  type LoadFault,
  parseRequest,
  READY,
  type Report,
  reportFrame,
  type WorkerRequest,
} from '../protocol.ts';
import { Isolate, type Run, usedCpuMs } from './isolate.ts';

/** An isolate with the programs that it has loaded. */
interface CachedIsolate {
  readonly isolate: Isolate;
  /** By program id: its number in the isolate, or its fault, as a source that does not compile never will. */
  readonly programs: Map<string, number | LoadFault>;
  heapMib: number;
  runs: number;
}

const IDLE = { wallMs: 0, cpuMs: 0, loadMs: 0 };

/** The isolates of a worker: one for each owner, the least recently used discarded first. One request at a time. */
class Isolates {
  readonly #settings: WorkerSettings;
  /** By owner, in the order of their last use. */
  readonly #isolates = new Map<string, CachedIsolate>();

  constructor(settings: WorkerSettings) {
    this.#settings = settings;
  }

  /** Carries out a request and returns the report. */
  async answer(request: WorkerRequest, texts: string): Promise<Frame> {
    if (!request.alone) return this.#run(request, texts);
    return request.source === undefined ? missing() : this.#runAlone(request, request.source, texts);
  }

  /** In a new isolate that is discarded afterwards. */
  async #runAlone(request: WorkerRequest, source: string, texts: string): Promise<Frame> {
    const began = performance.now();
    const isolate = new Isolate(this.#settings);
    const { loaded, cpuMs } = await timedLoad(isolate, source, request.limitMs);
    const times = timesSince(began, cpuMs);
    const isLoaded = typeof loaded === 'number';
    const run = isLoaded && request.op === 'run' ? await isolate.run(loaded, request, texts) : undefined;
    isolate.dispose();
    if (!isLoaded) return unloadable(loaded, times);
    return run === undefined ? reportFrame({ stop: 'ended', ...times }) : frameOf(run, times.loadMs);
  }

  async #run(request: WorkerRequest, texts: string): Promise<Frame> {
    const { owner, program, source, limitMs } = request;
    let known = this.#isolates.get(owner)?.programs.get(program);
    let times = IDLE;
    if (known === undefined) {
      if (source === undefined) return missing();
      const began = performance.now();
      const load = await this.#load(owner, program, source, limitMs);
      known = load.loaded;
      times = timesSince(began, load.cpuMs);
    }
    if (typeof known !== 'number') return unloadable(known, times);
    const cached = this.#use(owner);
    const run = await cached.isolate.run(known, request, texts);
    this.#account(owner, cached, request, run);
    return frameOf(run, times.loadMs);
  }

  async #load(owner: string, program: string, source: string, limitMs: number): Promise<TimedLoad> {
    const { isolate, programs } = this.#use(owner);
    const load = await timedLoad(isolate, source, limitMs);
    const { loaded } = load;
    const isNew = isolate.programs === 1;
    if (typeof loaded === 'number' || (isNew && loaded.kind === 'compile')) {
      programs.set(program, loaded);
      return load;
    }
    this.#discard(owner);
    // Other programs may have filled the isolate: only a fault in a new one is the source's own.
    return isNew ? load : this.#load(owner, program, source, limitMs);
  }

  /** The isolate of the owner, created if there is none, and marked as used last. */
  #use(owner: string): CachedIsolate {
    const cached = this.#isolates.get(owner) ?? {
      isolate: new Isolate(this.#settings),
      programs: new Map<string, number | LoadFault>(),
      heapMib: 0,
      runs: 0,
    };
    this.#isolates.delete(owner);
    this.#isolates.set(owner, cached);
    this.#trim();
    return cached;
  }

  /** Discards an isolate that is broken, old or full, so that leftovers of one event do not fail a later one. */
  #account(owner: string, cached: CachedIsolate, request: WorkerRequest, run: Run): void {
    const { recycleAfter, recycleAboveMib, recycleAbovePrograms } = this.#settings.limits;
    const { isolate } = cached;
    cached.runs += request.events;
    cached.heapMib = run.stop === 'ended' && !isolate.isDisposed ? isolate.heapMib : Number.POSITIVE_INFINITY;
    const isOld = cached.runs > recycleAfter || isolate.programs > recycleAbovePrograms;
    if (isOld || cached.heapMib > recycleAboveMib) this.#discard(owner);
    this.#trim();
  }

  #trim(): void {
    const { maxIsolates, maxIsolatesMib } = this.#settings.limits;
    let heapMib = 0;
    for (const cached of this.#isolates.values()) heapMib += cached.heapMib;
    for (const [owner, cached] of this.#isolates) {
      const last = this.#isolates.size === 1;
      if (last || (this.#isolates.size <= maxIsolates && heapMib <= maxIsolatesMib)) return;
      heapMib -= cached.heapMib;
      this.#discard(owner);
    }
  }

  #discard(owner: string): void {
    this.#isolates.get(owner)?.isolate.dispose();
    this.#isolates.delete(owner);
  }
}

interface TimedLoad {
  readonly loaded: number | LoadFault;
  /** Processor time that the source used. To make the isolate takes more than some sources, and is not theirs. */
  readonly cpuMs: number;
}

async function timedLoad(isolate: Isolate, source: string, limitMs: number): Promise<TimedLoad> {
  const cpuBefore = usedCpuMs();
  const loaded = await isolate.load(source, limitMs);
  return { loaded, cpuMs: usedCpuMs() - cpuBefore };
}

function timesSince(began: number, cpuMs: number): typeof IDLE {
  const wallMs = performance.now() - began;
  return { wallMs, cpuMs, loadMs: wallMs };
}

function missing(): Frame {
  return reportFrame({ stop: 'missing', ...IDLE });
}

function frameOf({ stop, wallMs, cpuMs, answers }: Run, loadMs: number): Frame {
  return reportFrame({ stop, wallMs, cpuMs, loadMs }, answers);
}

function unloadable(fault: LoadFault, times: Pick<Report, 'wallMs' | 'cpuMs' | 'loadMs'>): Frame {
  return reportFrame({ stop: 'unloadable', ...times, fault });
}

/** When the host has exited or its stream is broken. SIGKILL, because a thread may be stuck in user code. */
function die(): never {
  process.kill(process.pid, 'SIGKILL');
  throw new Error('killed');
}

/** When memory runs out, the kernel kills this process before any other. */
function preferForOomKiller(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // Not Linux, or not allowed. The host still watches the resident memory.
  }
}

function send(frame: Frame): void {
  process.stdout.write(encodeFrame(frame));
}

preferForOomKiller();
const settings = JSON.parse(process.argv[2] ?? '') as WorkerSettings;
const isolates = new Isolates(settings);
const frames = new FrameReader();
let last: Promise<void> = Promise.resolve();

async function work({ head, body }: Frame): Promise<void> {
  send(await isolates.answer(parseRequest(head), body));
}

process.stdin.on('data', (piece: Buffer) => {
  for (const frame of frames.push(piece)) last = last.then(() => work(frame));
});
process.stdin.on('close', die);
process.stdin.on('error', die);
process.stdout.on('error', die);
send({ head: READY, body: '' });
