import {
  backoffMs,
  ChildUser,
  type Logger,
  type Metrics,
  type Sandbox,
  type SandboxProgram,
  type SandboxResult,
  Unavailable,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import { CheckCall, isOutOfTime, isStarved, RunCall, type SandboxCall, type Task } from './calls.ts';
import {
  DEFAULT_LIMITS,
  type Frame,
  READY,
  type Report,
  requestFrame,
  type SandboxLimits,
} from './protocol.ts';
import { parseReport, WATCH_EVERY_MS, Watchdog, WorkerProcess } from './worker-process.ts';

export interface IsolatedVmSandboxOptions extends Partial<SandboxLimits> {
  /** Worker processes, at least 1. */
  readonly processes: number;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The node binary of the workers; this process's own by default. */
  readonly node?: string;
  /** User and group of the workers if this process runs as root; 0 keeps its own. Default 0. */
  readonly uid?: number;
  /** Command that starts the workers with fewer rights, see `Confinement`. Default none. */
  readonly wrapper?: readonly string[];
}

export interface IsolatedVmSandbox extends Sandbox {
  /** The process ids of the current workers, for operators and tests. */
  workerPids(): readonly number[];
}

/**
 * Runs user code in isolates of isolated-vm, within worker processes that can be killed. They start with the first call, which
 * waits for them: most installations begin without such code, and each process takes 85 MB.
 *
 * A program runs in the same worker for as long as that one lives, and its isolate is kept for later events. Programs of
 * quarantined owners run in a worker of their own, see `WorkerSlots`.
 */
export function openIsolatedVmSandbox(options: IsolatedVmSandboxOptions): IsolatedVmSandbox {
  const { processes, metrics, logger, node = process.execPath, ...more } = options;
  const { uid = 0, wrapper = [], ...given } = more;
  const limits: SandboxLimits = { ...DEFAULT_LIMITS, ...given };
  const isRoot = process.getuid?.() === 0;
  const user = new ChildUser({ uid, isRoot, children: 'sandbox workers', logger });
  const slots = new WorkerSlots(processes, { node, limits, user, wrapper, metrics, logger });

  return {
    async run(program, inputs, { captureLogs = false, budget } = {}) {
      if (inputs.length === 0) return [];
      const began = performance.now();
      const call = new RunCall(program, inputs, captureLogs, limits, budget);
      slots.submit(call);
      const results = await call.results;
      metrics.observe('tributary_sandbox_run_duration_seconds', (performance.now() - began) / 1000);
      countOutcomes(metrics, results);
      return results;
    },
    async check(program: SandboxProgram) {
      const check = new CheckCall(program, limits);
      slots.submit(check);
      return check.fault;
    },
    async close() {
      await slots.close();
    },
    workerPids: () => slots.pids,
  };
}

function countOutcomes(metrics: Metrics, results: readonly SandboxResult[]): void {
  const counts = new Map<string, number>();
  for (const result of results) {
    const outcome = result.ok ? 'ok' : result.kind;
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  for (const [outcome, count] of counts) metrics.count('tributary_sandbox_events_total', { outcome }, count);
}

type Settings = Omit<
  SlotSettings,
  'isLowPriority' | 'restartDelayMs' | 'recordHarm' | 'resume' | 'onBlocked'
>;

/**
 * The worker slots of a sandbox, and the assignment of calls to them. A program is assigned to one slot by its id. While a
 * slow task blocks that slot, calls of other owners move to the next one. Owners of harmful programs are quarantined: they
 * run in a slot of their own, created on first need, whose worker has low priority.
 */
class WorkerSlots {
  readonly #settings: SlotSettings;
  readonly #count: number;
  #slots: readonly WorkerSlot[] = [];
  readonly #reputation = new Reputation();
  #quarantine: WorkerSlot | undefined;
  #closed = false;

  /** Starts no worker before the first call. */
  constructor(count: number, settings: Settings) {
    this.#settings = {
      ...settings,
      isLowPriority: false,
      restartDelayMs: 0,
      recordHarm: (owner) => this.#quarantineOwner(owner),
      resume: (call, slot) => this.#resume(call, slot),
      onBlocked: (slot, owner) => this.#moveBlocked(slot, owner),
    };
    this.#count = count;
  }

  submit(call: SandboxCall): void {
    if (this.#closed) {
      call.reject(closedError());
      return;
    }
    const slot = this.#slotFor(call);
    if (slot === undefined) call.reject(downError());
    else slot.submit(call);
  }

  get pids(): readonly number[] {
    return this.#all().flatMap(({ pid }) => (pid === undefined ? [] : [pid]));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#all().map((slot) => slot.close()));
  }

  #all(): readonly WorkerSlot[] {
    return this.#quarantine === undefined ? this.#slots : [...this.#slots, this.#quarantine];
  }

  #slotFor({ program: { id, owner } }: SandboxCall): WorkerSlot | undefined {
    if (this.#slots.length === 0) this.#start();
    const quarantine = this.#isQuarantined(owner) ? this.#quarantine : undefined;
    if (quarantine?.isDown === false) return quarantine;
    const own = hash(id) % this.#slots.length;
    const up = [...this.#slots.slice(own), ...this.#slots.slice(0, own)].filter(({ isDown }) => !isDown);
    return up.find(({ isBlocked }) => !isBlocked) ?? up[0];
  }

  #start(): void {
    this.#slots = Array.from({ length: this.#count }, () => new WorkerSlot(this.#settings));
  }

  #isQuarantined(owner: string): boolean {
    return this.#reputation.isQuarantined(owner, performance.now());
  }

  #quarantineOwner(owner: string): void {
    if (this.#closed) return;
    this.#reputation.recordHarm(owner, performance.now());
    this.#quarantine ??= new WorkerSlot({
      ...this.#settings,
      isLowPriority: true,
      restartDelayMs: this.#settings.limits.restartDelayMs,
    });
    for (const slot of this.#slots) {
      for (const call of slot.remove((queued) => queued === owner)) this.submit(call);
    }
  }

  /** A call stays in its slot, unless its owner has been quarantined meanwhile. */
  #resume(call: SandboxCall, slot: WorkerSlot): void {
    const quarantine = this.#isQuarantined(call.program.owner) ? this.#quarantine : undefined;
    (quarantine?.isDown === false ? quarantine : slot).submit(call, 'resume');
  }

  /** Moves queued calls of other owners to a slot that is not blocked, if there is one. */
  #moveBlocked(from: WorkerSlot, slow: string | undefined): void {
    if (from === this.#quarantine || this.#slots.every(({ isBlocked, isDown }) => isBlocked || isDown))
      return;
    for (const call of from.remove((owner) => owner !== slow)) this.submit(call);
  }
}

/** FNV-1a, 32 bit. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

/** First and longest duration of a quarantine, ms. It doubles with each harm done soon after the last one ended. */
const FIRST_MS = 30_000;
const LONGEST_MS = 600_000;
const MAX_OWNERS = 10_000;

interface Penalty {
  until: number;
  lengthMs: number;
}

/**
 * The owners in quarantine: one of their programs occupied a worker until it was stopped, or took it down. It ends once the
 * owner has done no harm for its duration.
 */
export class Reputation {
  readonly #penalties = new LRUCache<string, Penalty>({ max: MAX_OWNERS });

  /** `now`: monotonic time, ms. */
  recordHarm(owner: string, now: number): void {
    const lengthMs = lengthOf(this.#penalties.get(owner), now);
    this.#penalties.set(owner, { until: now + lengthMs, lengthMs });
  }

  isQuarantined(owner: string, now: number): boolean {
    return now < (this.#penalties.get(owner)?.until ?? 0);
  }
}

function lengthOf(known: Penalty | undefined, now: number): number {
  if (known === undefined || now >= known.until + known.lengthMs) return FIRST_MS;
  return now < known.until ? known.lengthMs : Math.min(LONGEST_MS, known.lengthMs * 2);
}

interface SlotSettings {
  readonly node: string;
  readonly limits: SandboxLimits;
  readonly user: ChildUser;
  readonly wrapper: readonly string[];
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** Its worker runs on processor time that nothing else needs. */
  readonly isLowPriority: boolean;
  /** Pause before the successor of a lost worker is started, ms: a start blocks the host for a moment. */
  readonly restartDelayMs: number;
  /** A program of the owner occupied the worker until it was stopped, or took it down. */
  recordHarm(owner: string): void;
  /** Assigns a call that may have further tasks to a slot again. */
  resume(call: SandboxCall, slot: WorkerSlot): void;
  /** Queued calls of all owners but this one would wait for long, and may move to other slots. */
  onBlocked(slot: WorkerSlot, owner: string | undefined): void;
}

interface InFlight {
  readonly call: SandboxCall;
  readonly task: Task;
}

/** Tasks in flight: the worker is at work on the first while the next is on its way. */
const MAX_IN_FLIGHT = 2;
/** A task that takes longer blocks its slot, ms. */
const SLOW_MS = 20;
/** Consecutive failed starts after which the slot refuses calls. */
const MAX_FAILED_STARTS = 3;
/** Programs whose source the worker is known to have. */
const MAX_SENT_PROGRAMS = 10_000;
const BACKOFF = { firstMs: 50, capMs: 5_000 };

/**
 * One worker process at a time, and the queue for it. A worker reports tasks in the order in which they were sent. So when
 * it dies, the oldest task in flight is to blame; the others are sent again, to its successor.
 */
class WorkerSlot {
  readonly #settings: SlotSettings;
  readonly #queue = new FairQueue<SandboxCall>();
  #worker: WorkerProcess | undefined;
  #ready = false;
  #watchdog: Watchdog | undefined;
  #watchTimer: NodeJS.Timeout | undefined;
  #startTimer: NodeJS.Timeout | undefined;
  #inFlight: InFlight[] = [];
  /** When the oldest task in flight became the oldest, by `performance.now()`. */
  #oldestSince = 0;
  /** Programs whose source was sent to the worker. */
  readonly #sentPrograms = new Set<string>();
  #killedFor: 'timeout' | 'memory' | undefined;
  #failedStarts = 0;
  #closed = false;

  constructor(settings: SlotSettings) {
    this.#settings = settings;
    this.#start();
  }

  /** True after several starts have failed; starting is retried. */
  get isDown(): boolean {
    return this.#failedStarts >= MAX_FAILED_STARTS;
  }

  /** True while a new call would wait for a slow task, or for a worker to start. */
  get isBlocked(): boolean {
    if (!this.#ready) return true;
    return this.#inFlight.length > 0 && performance.now() - this.#oldestSince > SLOW_MS;
  }

  /** The process id of its worker, while there is one. */
  get pid(): number | undefined {
    return this.#worker?.pid;
  }

  /** `resume`: puts a call that was begun before the queued ones. */
  submit(call: SandboxCall, how: 'add' | 'resume' = 'add'): void {
    if (this.#closed) call.reject(closedError());
    else if (this.isDown) call.reject(downError());
    else {
      this.#queue[how](call);
      this.#pump();
    }
  }

  /** Removes the queued calls of these owners. */
  remove(isOwner: (owner: string) => boolean): readonly SandboxCall[] {
    return this.#queue.drain(isOwner);
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
    const { node, limits, user, isLowPriority, wrapper } = this.#settings;
    try {
      const worker = new WorkerProcess(
        { node, limits, isLowPriority, wrapper, ...user.identity },
        {
          frame: (frame) => this.#onFrame(frame),
          gone: (detail, isStuck) => this.#onExit(detail, isStuck),
        },
      );
      this.#worker = worker;
      this.#startTimer = setTimeout(() => worker.kill(), limits.startMs);
    } catch (error) {
      this.#onExit(String(error), false);
    }
  }

  #pump(): void {
    const worker = this.#worker;
    if (worker === undefined || !this.#ready || this.#killedFor !== undefined) return;
    while (this.#inFlight.length < MAX_IN_FLIGHT) {
      const next = this.#queue.take((call) => call.next());
      if (next === undefined) break;
      this.#send(worker, next.call, next.item);
    }
    this.#watch();
  }

  #send(worker: WorkerProcess, call: SandboxCall, task: Task): void {
    const { id: program, owner, source } = call.program;
    const needsSource = task.request.alone || !this.#sentPrograms.has(program);
    if (!task.request.alone) this.#remember(program);
    const request = { ...task.request, program, owner, ...(needsSource ? { source } : {}) };
    worker.send(requestFrame(request, task.texts));
    if (this.#inFlight.length === 0) this.#oldestSince = performance.now();
    this.#inFlight.push({ call, task });
  }

  /** A program that is forgotten has its source sent once more; a list that only grows would cost more. */
  #remember(program: string): void {
    if (this.#sentPrograms.size >= MAX_SENT_PROGRAMS) this.#sentPrograms.clear();
    this.#sentPrograms.add(program);
  }

  #onFrame(frame: Frame): void {
    if (this.#ready) this.#onReport(frame);
    else this.#onReady(frame);
  }

  #onReport(frame: Frame): void {
    const oldest = this.#inFlight[0];
    if (oldest === undefined) throw new TypeError('a report without a task');
    const report = parseReport(frame);
    assertMatches(report, oldest.task);
    this.#inFlight.shift();
    this.#oldestSince = performance.now();
    this.#record(report);
    const { id, owner } = oldest.call.program;
    if (report.stop === 'missing') this.#sentPrograms.delete(id);
    oldest.call.reported(oldest.task, report, frame.body);
    if (isHarm(report, this.#settings.limits)) this.#settings.recordHarm(owner);
    this.#settings.resume(oldest.call, this);
    this.#pump();
  }

  #onReady({ head }: Frame): void {
    if (head !== READY) throw new TypeError('not a worker');
    clearTimeout(this.#startTimer);
    const pid = this.#worker?.pid;
    const { limits, isLowPriority } = this.#settings;
    if (pid !== undefined) this.#watchdog = new Watchdog(pid, limits, isLowPriority);
    this.#ready = true;
    this.#failedStarts = 0;
    this.#settings.user.worked();
    if (isLowPriority) this.#worker?.runWhenIdle();
    this.#pump();
  }

  #record(report: Report): void {
    const { metrics, limits } = this.#settings;
    const stop = isStarved(report, limits) ? 'starved' : report.stop;
    metrics.count('tributary_sandbox_slices_total', { stop });
    metrics.observe('tributary_sandbox_slice_duration_seconds', report.wallMs / 1000);
  }

  /** Runs the watchdog while tasks are in flight. */
  #watch(): void {
    if (this.#inFlight.length > 0) {
      this.#watchTimer ??= setInterval(() => this.#checkWorker(), WATCH_EVERY_MS);
    } else {
      clearInterval(this.#watchTimer);
      this.#watchTimer = undefined;
    }
  }

  #checkWorker(): void {
    const oldest = this.#inFlight[0];
    if (oldest !== undefined && this.isBlocked) this.#settings.onBlocked(this, oldest.call.program.owner);
    const kind = oldest && this.#watchdog?.check(oldest, performance.now());
    if (kind === undefined || this.#killedFor !== undefined) return;
    // If this process was busy, the report may wait in the pipe. It is read before `setImmediate` fires.
    setImmediate(() => {
      if (this.#inFlight[0] === oldest) this.#kill(kind);
    });
  }

  #kill(kind: 'timeout' | 'memory'): void {
    if (this.#killedFor !== undefined) return;
    this.#killedFor = kind;
    this.#worker?.kill();
  }

  /** The worker has exited: settles the tasks in flight and starts a successor. */
  #onExit(detail: string, isStuck: boolean): void {
    const wasReady = this.#ready;
    const kind = this.#killedFor ?? (isStuck ? 'timeout' : undefined);
    const [oldest, ...others] = this.#inFlight;
    clearTimeout(this.#startTimer);
    this.#worker = undefined;
    this.#watchdog = undefined;
    this.#ready = false;
    this.#killedFor = undefined;
    this.#inFlight = [];
    this.#sentPrograms.clear();
    this.#watch();
    if (this.#closed) return;
    for (const { call, task } of others.reverse()) {
      call.putBack(task);
      this.#settings.resume(call, this);
    }
    if (oldest !== undefined) {
      this.#onLost(oldest, kind, detail);
      this.#settings.resume(oldest.call, this);
    }
    this.#settings.onBlocked(this, oldest?.call.program.owner);
    if (wasReady && this.#settings.restartDelayMs > 0) {
      this.#startTimer = setTimeout(() => this.#start(), this.#settings.restartDelayMs);
    } else if (wasReady || this.#settings.user.failed(detail)) this.#start();
    else this.#retryStart(detail);
  }

  /** A worker that was neither killed nor stuck and died during a task ran out of memory: nothing else ends one. */
  #onLost({ call, task }: InFlight, kind: 'timeout' | 'memory' | undefined, detail: string): void {
    const { metrics, logger } = this.#settings;
    metrics.count('tributary_sandbox_kills_total', { reason: kind ?? 'died' });
    logger.warn({ program: call.program.id, reason: kind ?? 'died', detail }, 'a sandbox worker was lost');
    call.killed(task, kind ?? 'memory');
    this.#settings.recordHarm(call.program.owner);
  }

  #retryStart(detail: string): void {
    this.#failedStarts += 1;
    const waitMs = backoffMs(this.#failedStarts - 1, BACKOFF);
    this.#settings.logger.error({ detail, failed: this.#failedStarts }, 'a sandbox worker did not start');
    if (this.isDown) this.#rejectAll(downError());
    this.#startTimer = setTimeout(() => this.#start(), waitMs);
  }

  #rejectAll(error: Error): void {
    const waiting = [...this.#queue.drain(), ...this.#inFlight.map(({ call }) => call)];
    for (const call of waiting) call.reject(error);
  }
}

/** Whether code used up its time or its memory, as opposed to a machine too busy to run it. */
function isHarm(report: Report, limits: SandboxLimits): boolean {
  return report.stop === 'memory' || (isOutOfTime(report) && report.cpuMs >= limits.eventMs / 2);
}

/** A worker that reports on other events than those of the task is not trusted. */
function assertMatches(report: Report, { request }: Task): void {
  const { length } = report.entries;
  if (length > request.events || (report.stop === 'ended' && request.events > 0 && length === 0)) {
    throw new RangeError('a report about other events');
  }
}

function closedError(): Unavailable {
  return new Unavailable('the sandbox is closed');
}

function downError(): Unavailable {
  return new Unavailable('no sandbox worker can be started');
}

interface Owned {
  readonly program: { readonly id: string; readonly owner: string };
}

/**
 * Calls in the order of fair turns: owners take turns, and so do the programs of each owner. An owner with many calls or
 * many programs delays another one by one item at a time. Calls of one program keep their order.
 */
export class FairQueue<Call extends Owned> {
  readonly #queues = new Map<string, Map<string, Call[]>>();

  /** Adds a call at the end of its program's queue. */
  add(call: Call): void {
    const queue = this.#queueOf(call);
    if (!queue.includes(call)) queue.push(call);
  }

  /** Puts a call back at the front of its program's queue, unless it is in the queue. */
  resume(call: Call): void {
    const queue = this.#queueOf(call);
    if (!queue.includes(call)) queue.unshift(call);
  }

  /** The next item by turns, and its call. Calls for which `itemOf` returns nothing are removed. */
  take<Item>(itemOf: (call: Call) => Item | undefined): { call: Call; item: Item } | undefined {
    for (const [owner, programs] of this.#queues) {
      this.#queues.delete(owner);
      const found = takeFrom(programs, itemOf);
      if (programs.size > 0) this.#queues.set(owner, programs);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Removes the calls of these owners; of all by default. */
  drain(isOwner: (owner: string) => boolean = () => true): readonly Call[] {
    const removed: Call[] = [];
    for (const [owner, programs] of this.#queues) {
      if (!isOwner(owner)) continue;
      this.#queues.delete(owner);
      removed.push(...[...programs.values()].flat());
    }
    return removed;
  }

  #queueOf({ program: { id, owner } }: Call): Call[] {
    const programs = this.#queues.get(owner) ?? new Map<string, Call[]>();
    this.#queues.set(owner, programs);
    const queue = programs.get(id) ?? [];
    programs.set(id, queue);
    return queue;
  }
}

function takeFrom<Call, Item>(
  programs: Map<string, Call[]>,
  itemOf: (call: Call) => Item | undefined,
): { call: Call; item: Item } | undefined {
  for (const [id, queue] of programs) {
    programs.delete(id);
    for (let call = queue[0]; call !== undefined; call = queue[0]) {
      const item = itemOf(call);
      if (item !== undefined) {
        programs.set(id, queue);
        return { call, item };
      }
      queue.shift();
    }
  }
  return undefined;
}
