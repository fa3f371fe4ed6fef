import { writeFileSync, writeSync } from 'node:fs';
import ivm from 'isolated-vm';
import {
  type Adopted,
  encodeFrame,
  type Frame,
  FrameReader,
  type Inside,
  type LoadFault,
  parseRequest,
  READY,
  type Report,
  reportFrame,
  type Stop,
  type WorkerRequest,
  type WorkerSettings,
} from '../protocol.ts';
import { bootstrap, fixedWorld, ownGlobals } from './bootstrap.ts';
import {
  adviceFor,
  HANDLERS,
  peerForms,
  peerScope,
  THEIR_FIELDS,
  TO_TRANSFORM,
  withoutExports,
} from './peer-forms.ts';
import { type WebHost, webApis, webHost, webUrl } from './web-apis.ts';

/* The program of a worker process: requests on stdin, reports on stdout, user code only inside isolates. */

/** The name of the user's source in stack traces. */
const FILE = 'transformation.js';
/** The global through which an isolate receives its calls to the worker, while it starts. */
const HOST = '__host';
/** The name of our own code in stack traces. */
const OWN_FILE = 'sandbox.js';
/** The user's source becomes the body of a strict function, so that it can be evaluated for each event. */
const STRICT = `'use strict';\n`;
const EVALUATES = `(function () { ${STRICT}`;
/** A source that refers to the global object gets a global object of its own for each event. */
const USES_GLOBAL = /\b(?:this|self|globalThis|eval)\b/;
/** How often a source is evaluated because it adds properties to its global object, and the most properties. */
const MAX_ROUNDS = 8;
const MAX_NAMES = 200;
/** Valid names of variables in strict code. */
const VARIABLE =
  /^(?!(?:arguments|await|break|case|catch|class|const|continue|debugger|default|delete|do|else|enum|eval|export|extends|false|finally|for|function|globalThis|if|implements|import|in|instanceof|interface|let|link|new|null|package|private|protected|public|return|self|static|super|switch|this|throw|true|try|typeof|undefined|var|void|while|with|yield)$)[A-Za-z_$][\w$]*$/;
/** Processor time that a call to the worker counts as, ms: the isolate waits for it without using any. */
const HOST_CALL_MS = 0.05;
/** Makes lines count from the source's first one. */
const ORIGIN = { filename: FILE, lineOffset: -1 };
const MIB = 1024 * 1024;
const STDERR = 2;
/** How often the processor time of a run is compared with its limit, ms. */
const CHECK_EVERY_MS = 5;
/** isolated-vm's message for a call that used up its time. */
const TIMED_OUT = 'Script execution timed out.';

interface Run {
  readonly stop: Stop;
  readonly wallMs: number;
  readonly cpuMs: number;
  /** See `Answers`; absent if nothing of the run counts. */
  readonly answers?: string;
}

type Method<Name extends keyof Inside> = ivm.Reference<Inside[Name]>;

const COPIED = { arguments: { copy: true }, result: { copy: true } } as const;
type CallOptions = typeof COPIED & { readonly timeout: number };

/** Runs the programs of one owner: a heap of its own, with globals that no program can change. */
class Isolate {
  readonly #isolate: ivm.Isolate;
  readonly #context: ivm.Context;
  readonly #adopt: Method<'adopt'>;
  readonly #run: Method<'run'>;
  readonly #answers: Method<'answers'>;
  readonly #settings: WorkerSettings;
  #programs = 0;
  #hostCalls = 0;

  constructor(settings: WorkerSettings) {
    const { isolateMib } = settings.limits;
    this.#isolate = new ivm.Isolate({ memoryLimit: isolateMib, onCatastrophicError: dieOfLostIsolate });
    this.#context = this.#isolate.createContextSync();
    const answer: WebHost = (operation, ...texts) => {
      this.#hostCalls += 1;
      return webHost(operation, ...texts);
    };
    this.#context.global.setSync(HOST, new ivm.Callback(answer));
    const inside: ivm.Reference<Inside> = this.#context.evalSync(bootstrapSource(settings.output), {
      filename: OWN_FILE,
      reference: true,
    });
    this.#adopt = inside.getSync('adopt', { reference: true });
    this.#run = inside.getSync('run', { reference: true });
    this.#answers = inside.getSync('answers', { reference: true });
    this.#settings = settings;
  }

  /**
   * Loads a source within `limitMs`: returns the number to run it by, or its fault. After a fault other than `compile` the
   * isolate has to be disposed, as the source was stopped in the middle.
   */
  async load(source: string, limitMs: number): Promise<number | LoadFault> {
    const [isolate, { limits, output }] = [this.#isolate, this.#settings];
    const number = this.#programs;
    this.#programs += 1;
    try {
      const code = await this.#compiling(source);
      const names = new Set<string>();
      for (let round = 1; ; round++) {
        const { fault, globals } = await this.#adoptWith(number, code, names, limitMs);
        const known = names.size;
        for (const name of globals) if (VARIABLE.test(name) && names.size < MAX_NAMES) names.add(name);
        // Evaluated again with variables for properties of `globalThis`: a library that registers itself there is used by
        // its bare name in the same source.
        if (names.size > known && round < MAX_ROUNDS) continue;
        if (fault === null) return number;
        const [message, line, column] = fault;
        return { kind: 'compile', message, ...location(line, column), ...adviceFor(source) };
      }
    } catch (error) {
      const fault = faultOf(error, isolate.isDisposed, limits.eventMs, output.maxMessageChars);
      return fault.kind === 'compile' ? { ...fault, ...adviceFor(source) } : fault;
    }
  }

  /** The source, without its exports where it is a module. Compiled by itself, so that it cannot close the function around it. */
  async #compiling(source: string): Promise<string> {
    try {
      (await this.#isolate.compileScript(STRICT + source, ORIGIN)).release();
      return source;
    } catch (error) {
      if (!messageOf(error).startsWith("Unexpected token 'export'")) throw error;
      const code = withoutExports(source);
      (await this.#isolate.compileScript(STRICT + code, ORIGIN)).release();
      return code;
    }
  }

  async #adoptWith(
    number: number,
    source: string,
    names: ReadonlySet<string>,
    limitMs: number,
  ): Promise<Adopted> {
    const usesGlobal = USES_GLOBAL.test(source);
    const [start, end] = usesGlobal ? wrapper(names) : ['', ''];
    const [before, after] = peerScope(source);
    const text = `${start}${before}${EVALUATES}${source}${TO_TRANSFORM}})${after}${end}`;
    const script = await this.#isolate.compileScript(text, ORIGIN);
    const evaluate = await script.run(this.#context, { reference: true });
    script.release();
    const options = { timeout: limitMs, result: { copy: true } } as const;
    const args = [number, evaluate.derefInto({ release: true }), usesGlobal] as const;
    return JSON.parse(await this.#adopt.apply(undefined, [...args], options)) as Adopted;
  }

  /** Runs the events of a request through a program, within one time limit. After any stop but `ended`, dispose. */
  async run(program: number, request: WorkerRequest, texts: string): Promise<Run> {
    const { sizes, captureLogs, limitMs } = request;
    const options = { ...COPIED, timeout: limitMs };
    const began = performance.now();
    const cpuBefore = usedCpuMs();
    const callsBefore = this.#hostCalls;
    const overdue = this.#disposeOverdue(limitMs, cpuBefore);
    let answers: string | undefined;
    let stop: Stop = 'ended';
    try {
      const answered = await this.#run.apply(undefined, [program, [sizes, texts], captureLogs], options);
      [answers] = answered ?? (await this.#answers.apply(undefined, [true], options));
    } catch (error) {
      ({ stop, answers } = await this.#salvage(sizes, options, isTimeout(error, began, limitMs)));
      if (overdue.isDisposed) [stop, answers] = ['timeout', undefined];
    } finally {
      clearInterval(overdue.timer);
    }
    const cpuMs = usedCpuMs() - cpuBefore;
    const waitedMs = (this.#hostCalls - callsBefore) * HOST_CALL_MS;
    const times = { stop, wallMs: performance.now() - began, cpuMs: cpuMs + waitedMs };
    return answers === undefined ? times : { ...times, answers };
  }

  get isDisposed(): boolean {
    return this.#isolate.isDisposed;
  }

  /**
   * A run that has more wall time than an event, because the machine was too busy before, still has only the processor time
   * of one: else code that wastes memory would end for lack of memory instead. isolated-vm knows only limits of wall time.
   */
  #disposeOverdue(limitMs: number, cpuBefore: number): { timer?: NodeJS.Timeout; isDisposed: boolean } {
    const { eventMs } = this.#settings.limits;
    if (limitMs <= eventMs) return { isDisposed: false };
    const overdue = {
      isDisposed: false,
      timer: setInterval(() => {
        if (usedCpuMs() - cpuBefore < eventMs) return;
        overdue.isDisposed = true;
        this.dispose();
      }, CHECK_EVERY_MS),
    };
    return overdue;
  }

  /** Sources loaded so far, those with faults included. */
  get programs(): number {
    return this.#programs;
  }

  get heapMib(): number {
    const heap = this.#isolate.getHeapStatisticsSync();
    return (heap.used_heap_size + heap.externally_allocated_size) / MIB;
  }

  dispose(): void {
    if (!this.#isolate.isDisposed) this.#isolate.dispose();
  }

  /**
   * The answers of a run that failed. If it was not cut short by the time limit, it did end, and the failure is an
   * unhandled rejection that an event left behind: isolated-vm throws it from the call, even if that succeeded.
   */
  async #salvage(
    sizes: string,
    options: CallOptions,
    isCut: boolean,
  ): Promise<{ stop: Stop; answers: string | undefined }> {
    if (this.#isolate.isDisposed) return { stop: 'memory', answers: undefined };
    try {
      const answers = await this.#answersAfter(!isCut, options);
      const entries: unknown = JSON.parse(answers.slice(0, answers.indexOf('\n')));
      const requested: unknown = JSON.parse(sizes);
      const done = Array.isArray(entries) ? entries.length : 0;
      if (!isCut && done > 0) return { stop: 'ended', answers };
      const all = Array.isArray(requested) && 4 * done >= requested.length;
      return all ? { stop: 'hung', answers: undefined } : { stop: 'timeout', answers };
    } catch {
      return { stop: this.#isolate.isDisposed ? 'memory' : 'hung', answers: undefined };
    }
  }

  /** Rejections left by a run that was cut short fail the first call after it, but not the second. */
  async #answersAfter(settle: boolean, options: CallOptions): Promise<string> {
    const ask = () => this.#answers.apply(undefined, [settle], options);
    const began = performance.now();
    const [answers] = await ask().catch((error) => {
      if (isTimeout(error, began, options.timeout)) throw error;
      return ask();
    });
    return answers;
  }
}

/** User code can reject with the same message, so the elapsed time has to confirm it. */
function isTimeout(error: unknown, began: number, limitMs: number): boolean {
  return messageOf(error) === TIMED_OUT && performance.now() - began >= limitMs;
}

/**
 * Processor time of the worker since its start, ms. It carries out one request at a time, so the time during a run is the
 * run's own, with garbage collection. An isolate's `cpuTime` is no measure of it: that is the wall time of its lock.
 */
function usedCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function bootstrapSource(output: WorkerSettings['output']): string {
  return `(function () {
    'use strict';
    const host = globalThis.${HOST};
    delete globalThis.${HOST};
    const world = (${fixedWorld.toString()})(${JSON.stringify(OWN_FILE)});
    (${webApis.toString()})(host);
    (${webUrl.toString()})(host);
    return (${bootstrap.toString()})(${JSON.stringify(output)}, ${JSON.stringify(FILE)}, world, ${ownGlobals.toString()},
      (${peerForms.toString()})(${JSON.stringify(HANDLERS)}, ${JSON.stringify(THEIR_FIELDS)}));
  })()`;
}

/**
 * The code around the function that evaluates a source. The part before it has no line feed, so that lines count from the
 * source's first one.
 */
function wrapper(names: ReadonlySet<string>): readonly [before: string, after: string] {
  const links = [...names].map(
    (name) =>
      `let ${name} = globalThis.${name}; link(globalThis, '${name}', () => ${name}, (value) => { ${name} = value; });`,
  );
  const start = "(function (globalThis, link) { 'use strict'; const self = globalThis;";
  return [`${start} ${links.join(' ')} return `, '.call(globalThis); })'];
}

/** A place in the user's source, as far as it is known. */
function location(line: number, column: number): { readonly line?: number; readonly column?: number } {
  return line > 0 ? { line, ...(column > 0 ? { column } : {}) } : {};
}

/**
 * After V8 has lost an isolate nothing in this process can be trusted, and the isolate's thread never returns. The host
 * logs the message: otherwise it would only see a process that the system killed.
 */
function dieOfLostIsolate(message: string): void {
  writeSync(STDERR, `the isolate is lost: ${message}`);
  process.kill(process.pid, 'SIGKILL');
}

function messageOf(thrown: unknown): string {
  return String(thrown instanceof Error ? thrown.message : thrown);
}

function faultOf(thrown: unknown, disposed: boolean, eventMs: number, maxChars: number): LoadFault {
  if (disposed) return { kind: 'memory', message: 'the source took too much memory while it loaded' };
  const message = messageOf(thrown);
  if (message === TIMED_OUT) {
    return { kind: 'timeout', message: `the source took longer than ${eventMs} ms to load` };
  }
  const name = thrown instanceof Error && thrown.name !== 'Error' ? `${thrown.name}: ` : '';
  const stack = thrown instanceof Error ? (thrown.stack ?? '') : '';
  const [, line = '0', column = '0'] =
    new RegExp(`${FILE}:(\\d{1,7})(?::(\\d{1,7}))?`).exec(`${message}\n${stack}`) ?? [];
  const text = message.replace(new RegExp(` \\[${FILE}:\\d+:\\d+\\]$`), '').slice(0, maxChars);
  const shown = `${name}${text}${line === '0' ? '' : ` (line ${line})`}`;
  return { kind: 'compile', message: shown, ...location(Number(line), Number(column)) };
}

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
