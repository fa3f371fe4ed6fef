import { backoffMs, type ChildUser, type Logger, type Metrics, Unavailable } from '@tributary/core';
import type { Frame } from './frames.ts';
import type { SandboxLimits } from './limits.ts';
import { READY, type Report, taskFrame } from './messages.ts';
import { parseReport } from './report.ts';
import { Turns } from './turns.ts';
import { WATCH_EVERY_MS, Watchdog } from './watchdog.ts';
import type { Errand, Work } from './work.ts';
import { WorkerProcess } from './worker-process.ts';

export interface LaneSettings {
  readonly node: string;
  readonly limits: SandboxLimits;
  readonly user: ChildUser;
  readonly wrapper: readonly string[];
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** Its worker runs with what the others leave. */
  readonly standsBack: boolean;
  /** How long after a worker was lost the next one is started, ms: to start one holds the host up for a moment. */
  readonly restMs: number;
  /** A program held the worker up until it was stopped, or took it down. */
  harmed(owner: string): void;
  /** Takes back a work that is not done: where it goes on is decided anew. */
  resume(work: Work, lane: Lane): void;
  /** What waits here for anybody but `owner` would wait for long: it may go elsewhere. */
  heldUp(lane: Lane, owner: string | undefined): void;
}

interface UnderWay {
  readonly work: Work;
  readonly errand: Errand;
}

/** Errands a worker has at once: it works on the first while the next is on its way. */
const AHEAD = 2;
/** An errand that takes longer than this holds others up, ms. */
const SLOW_MS = 20;
/** Starts that failed in a row after which the lane is closed to calls. */
const MAX_FAILED_STARTS = 3;
/** Programs a lane remembers to have sent. */
const MAX_KNOWN = 10_000;
const BACKOFF = { firstMs: 50, capMs: 5_000 };

/**
 * One worker at a time and what waits for it. A worker answers in the order it was asked, so that whatever kills it is
 * on account of the oldest errand under way; the others are sent again to its successor.
 */
export class Lane {
  readonly #settings: LaneSettings;
  readonly #turns = new Turns<Work>();
  #worker: WorkerProcess | undefined;
  #ready = false;
  #watchdog: Watchdog | undefined;
  #watchTimer: NodeJS.Timeout | undefined;
  #startTimer: NodeJS.Timeout | undefined;
  #underWay: UnderWay[] = [];
  /** Since when the oldest errand is the oldest, ms that never go back. */
  #oldestSince = 0;
  /** Programs the worker is thought to have. */
  readonly #known = new Set<string>();
  #killedFor: 'timeout' | 'memory' | undefined;
  #failedStarts = 0;
  #closed = false;

  constructor(settings: LaneSettings) {
    this.#settings = settings;
    this.#start();
  }

  /** True when its last workers could not be started; it goes on trying. */
  get isDown(): boolean {
    return this.#failedStarts >= MAX_FAILED_STARTS;
  }

  /** True while what comes now would wait for an errand that is slow, or for a worker to start. */
  get isHeldUp(): boolean {
    if (!this.#ready) return true;
    return this.#underWay.length > 0 && performance.now() - this.#oldestSince > SLOW_MS;
  }

  /** The process id of its worker, while there is one. */
  get pid(): number | undefined {
    return this.#worker?.pid;
  }

  submit(work: Work): void {
    if (this.#closed) work.reject(closedError());
    else if (this.isDown) work.reject(downError());
    else {
      this.#turns.add(work);
      this.#pump();
    }
  }

  /** Goes on with a work before what waits. */
  resume(work: Work): void {
    if (this.#closed) work.reject(closedError());
    else if (this.isDown) work.reject(downError());
    else {
      this.#turns.resume(work);
      this.#pump();
    }
  }

  /** The works that wait for owners who are so leave. */
  leave(isOwner: (owner: string) => boolean): readonly Work[] {
    return this.#turns.drain(isOwner);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#startTimer);
    this.#rejectAll(closedError());
    const worker = this.#worker;
    worker?.kill();
    await worker?.gone;
  }

  #start(): void {
    const { node, limits, user, standsBack, wrapper } = this.#settings;
    try {
      const worker = new WorkerProcess(
        { node, limits, standsBack, wrapper, ...user.identity },
        {
          frame: (frame) => this.#read(frame),
          gone: (detail) => this.#bury(detail),
        },
      );
      this.#worker = worker;
      this.#startTimer = setTimeout(() => worker.kill(), limits.startMs);
    } catch (error) {
      this.#bury(String(error));
    }
  }

  #pump(): void {
    const worker = this.#worker;
    if (worker === undefined || !this.#ready || this.#killedFor !== undefined) return;
    while (this.#underWay.length < AHEAD) {
      const turn = this.#turns.take((work) => work.next());
      if (turn === undefined) break;
      this.#send(worker, turn.work, turn.wanted);
    }
    this.#watch();
  }

  #send(worker: WorkerProcess, work: Work, errand: Errand): void {
    const { id: program, owner, source } = work.program;
    const needsSource = errand.task.alone || !this.#known.has(program);
    if (!errand.task.alone) this.#remember(program);
    const task = { ...errand.task, program, owner, ...(needsSource ? { source } : {}) };
    worker.send(taskFrame(task, errand.texts));
    if (this.#underWay.length === 0) this.#oldestSince = performance.now();
    this.#underWay.push({ work, errand });
  }

  /** Forgetting costs sending a source once more; a list that only grows would cost more. */
  #remember(program: string): void {
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.add(program);
  }

  #read(frame: Frame): void {
    if (this.#ready) this.#takeReport(frame);
    else this.#welcome(frame);
  }

  #takeReport(frame: Frame): void {
    const oldest = this.#underWay[0];
    if (oldest === undefined) throw new TypeError('an answer to nothing');
    const report = parseReport(frame);
    assertAnswers(report, oldest.errand);
    this.#underWay.shift();
    this.#oldestSince = performance.now();
    this.#record(report);
    const { id, owner } = oldest.work.program;
    if (report.stop === 'missing') this.#known.delete(id);
    oldest.work.reported(oldest.errand, report, frame.body);
    if (isHarm(report, this.#settings.limits)) this.#settings.harmed(owner);
    this.#settings.resume(oldest.work, this);
    this.#pump();
  }

  #welcome({ head }: Frame): void {
    if (head !== READY) throw new TypeError('not a worker');
    clearTimeout(this.#startTimer);
    const pid = this.#worker?.pid;
    const { limits, standsBack } = this.#settings;
    if (pid !== undefined) this.#watchdog = new Watchdog(pid, limits, standsBack);
    this.#ready = true;
    this.#failedStarts = 0;
    this.#settings.user.worked();
    if (standsBack) this.#worker?.runWhenIdle();
    this.#pump();
  }

  #record({ stop, wallMs }: Report): void {
    this.#settings.metrics.count('tributary_sandbox_slices_total', { stop });
    this.#settings.metrics.observe('tributary_sandbox_slice_duration_seconds', wallMs / 1000);
  }

  /** Looks at the worker as long as something is under way. */
  #watch(): void {
    if (this.#underWay.length > 0) {
      this.#watchTimer ??= setInterval(() => this.#look(), WATCH_EVERY_MS);
    } else {
      clearInterval(this.#watchTimer);
      this.#watchTimer = undefined;
    }
  }

  #look(): void {
    const oldest = this.#underWay[0];
    if (oldest !== undefined && this.isHeldUp) this.#settings.heldUp(this, oldest.work.program.owner);
    const kind = oldest && this.#watchdog?.look(oldest, performance.now());
    if (kind === undefined || this.#killedFor !== undefined) return;
    // This process may have been busy, the answer waiting in the pipe: that is read before the next `setImmediate`.
    setImmediate(() => {
      if (this.#underWay[0] === oldest) this.#kill(kind);
    });
  }

  #kill(kind: 'timeout' | 'memory'): void {
    if (this.#killedFor !== undefined) return;
    this.#killedFor = kind;
    this.#worker?.kill();
  }

  /** The worker is gone: settles what it was doing and starts its successor. */
  #bury(detail: string): void {
    const wasReady = this.#ready;
    const kind = this.#killedFor;
    const [oldest, ...others] = this.#underWay;
    clearTimeout(this.#startTimer);
    this.#worker = undefined;
    this.#watchdog = undefined;
    this.#ready = false;
    this.#killedFor = undefined;
    this.#underWay = [];
    this.#known.clear();
    this.#watch();
    if (this.#closed) return;
    for (const { work, errand } of others.reverse()) {
      work.putBack(errand);
      this.#settings.resume(work, this);
    }
    if (oldest !== undefined) {
      this.#blame(oldest, kind, detail);
      this.#settings.resume(oldest.work, this);
    }
    this.#settings.heldUp(this, oldest?.work.program.owner);
    if (wasReady && this.#settings.restMs > 0) {
      this.#startTimer = setTimeout(() => this.#start(), this.#settings.restMs);
    } else if (wasReady || this.#settings.user.failed(detail)) this.#start();
    else this.#startLater(detail);
  }

  /** A worker that died by itself under an errand ran out of memory: nothing else ends it. */
  #blame({ work, errand }: UnderWay, kind: 'timeout' | 'memory' | undefined, detail: string): void {
    const { metrics, logger } = this.#settings;
    metrics.count('tributary_sandbox_kills_total', { reason: kind ?? 'died' });
    logger.warn({ program: work.program.id, reason: kind ?? 'died', detail }, 'a sandbox worker was lost');
    work.killed(errand, kind ?? 'memory');
    this.#settings.harmed(work.program.owner);
  }

  #startLater(detail: string): void {
    this.#failedStarts += 1;
    const waitMs = backoffMs(this.#failedStarts - 1, BACKOFF);
    this.#settings.logger.error({ detail, failed: this.#failedStarts }, 'a sandbox worker did not start');
    if (this.isDown) this.#rejectAll(downError());
    this.#startTimer = setTimeout(() => this.#start(), waitMs);
  }

  #rejectAll(error: Error): void {
    const waiting = [...this.#turns.drain(), ...this.#underWay.map(({ work }) => work)];
    for (const work of waiting) work.reject(error);
  }
}

/** Code that used its time up, or all memory; not the machine that was too busy to run it. */
function isHarm({ stop, cpuMs, fault }: Report, limits: SandboxLimits): boolean {
  if (stop === 'memory') return true;
  const isSlow = stop === 'timeout' || stop === 'hung' || fault?.kind === 'timeout';
  return isSlow && cpuMs >= limits.eventMs / 2;
}

/** A worker that says more or less than it was asked is not to be believed. */
function assertAnswers(report: Report, { task }: Errand): void {
  const { length } = report.entries;
  if (length > task.events || (report.stop === 'ended' && task.events > 0 && length === 0)) {
    throw new RangeError('a report about other events');
  }
}

export function closedError(): Unavailable {
  return new Unavailable('the sandbox is closed');
}

export function downError(): Unavailable {
  return new Unavailable('no sandbox worker can be started');
}
