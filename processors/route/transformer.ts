import {
  type CanonicalEvent,
  type Catalog,
  type CatalogView,
  type Clock,
  iso,
  type Logger,
  MAX_CANONICAL_EVENT_BYTES,
  MAX_OUTPUTS,
  messageOf,
  OUTPUT_ROOM_BYTES,
  type Sandbox,
  type SandboxErrorKind,
  type SandboxInput,
  type SandboxResult,
  type StageContext,
  type Transformation,
  type Transformed,
  transformedFrom,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import { pieceOf, type RunPiece, SMALL_CHARS } from '../fairness/fair-share.ts';
import { TimeoutWheel } from '../fairness/waits.ts';
import type { RunMetrics } from './run-metrics.ts';

/** Programs whose call sizes are remembered. */
const KNOWN_PROGRAMS = 10_000;

interface TransformerDependencies {
  readonly sandbox: Sandbox;
  readonly failures: Pick<FailureWatch, 'note'>;
  readonly runMetrics: Pick<RunMetrics, 'note'>;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  readonly transformEvents: number;
  /** Bytes of events in one sandbox call at most; a larger event is sent alone. */
  readonly transformBytes: number;
  /** Runs a piece of the work on large outputs. */
  readonly runPiece: RunPiece;
  readonly catalog: { readonly state: Pick<CatalogView, 'transformation'> };
}

export const DELETED = 'its transformation was deleted';

/** Why a transformation must not run; undefined where it may. */
export function refusalOf(transformation: Transformation | undefined): string | undefined {
  if (transformation === undefined) return DELETED;
  if (transformation.status === 'draft') return 'its transformation is a draft';
  if (transformation.status === 'active') return undefined;
  return `its transformation is in error: ${transformation.last_error ?? 'unknown'}`;
}

/** Not run, because of the status of the transformation. */
interface NotRun {
  readonly ok: false;
  readonly kind: 'refused';
  readonly message: string;
}

/** The run timed out; its result is dropped. */
type TooSlow = 'too slow';

/** The limits of one event, and the account of its pending outputs until all its rules are done. */
export interface EventLimits {
  readonly pendingEvent: PendingEvent;
  readonly share: RuleShare;
}

interface QueuedEvent {
  readonly event: CanonicalEvent;
  readonly input: SandboxInput;
  readonly bytes: number;
  readonly context: Pick<StageContext, 'room'>;
  readonly limits: EventLimits;
  isTimedOut: boolean;
  resolve(outcome: Transformed | NotRun | TooSlow): void;
  reject(error: unknown): void;
}

interface Program {
  readonly transformation: Transformation;
  readonly waiting: Set<QueuedEvent>;
  readonly size: CallSize;
  running: boolean;
  /** Wakes up the program when an event arrives while there is no room for the queued ones. */
  arrived: () => void;
}

/** The events of one call; where empty, the changes to wait for. */
interface Taken {
  readonly batch: readonly QueuedEvent[];
  readonly changes: ReadonlySet<Promise<void>>;
}

/**
 * Runs events through transformations in batches without a linger: events that arrive during a call of their program form
 * the next one. One call per program at a time, whose size depends on earlier outputs, with events whose partition has room
 * for their outputs.
 */
export class Transformer {
  readonly #dependencies: TransformerDependencies;
  readonly #programs = new Map<string, Program>();
  readonly #sizes = new LRUCache<string, CallSize>({ max: KNOWN_PROGRAMS });
  readonly #timeouts: TimeoutWheel;
  readonly #pendingOutputs = new PendingOutputs();

  constructor(dependencies: TransformerDependencies) {
    this.#dependencies = dependencies;
    this.#timeouts = new TimeoutWheel(dependencies.elapsed);
  }

  /**
   * Resolves to the outputs of the event or its failure, and to `too slow` after `timeoutMs`: transformations have no side
   * effects, so the event can run again in the slow queue. Rejects with errors of the sandbox (`Unavailable`), and once the
   * partition was revoked.
   */
  run(
    transformation: Transformation,
    event: CanonicalEvent,
    input: SandboxInput,
    context: Pick<StageContext, 'room'>,
    limits: EventLimits,
    timeoutMs?: number,
  ): Promise<Transformed | NotRun | TooSlow> {
    const program = this.#programOf(transformation);
    return new Promise((resolve, reject) => {
      const bytes = Buffer.byteLength(input.event);
      const waiting: QueuedEvent = {
        event,
        input,
        bytes,
        context,
        limits,
        isTimedOut: false,
        resolve,
        reject,
      };
      if (timeoutMs !== undefined) {
        const timeout = this.#timeouts.start(timeoutMs, () => {
          program.waiting.delete(waiting);
          waiting.isTimedOut = true;
          resolve('too slow');
        });
        waiting.resolve = (outcome) => {
          timeout.cancel();
          resolve(outcome);
        };
        waiting.reject = (error) => {
          timeout.cancel();
          reject(error);
        };
      }
      program.waiting.add(waiting);
      program.arrived();
      if (program.running) return;
      program.running = true;
      setImmediate(() => void this.#drain(program));
    });
  }

  /** Called when the rules of an event are done, or diverted: its outputs are not kept here any longer. */
  release(event: PendingEvent): void {
    this.#pendingOutputs.release(event);
  }

  #programOf(transformation: Transformation): Program {
    const id = programId(transformation);
    const known = this.#programs.get(id);
    if (known !== undefined) return known;
    const size = this.#sizes.get(id) ?? new CallSize();
    this.#sizes.set(id, size);
    const program = {
      transformation,
      waiting: new Set<QueuedEvent>(),
      size,
      running: false,
      arrived: () => {},
    };
    this.#programs.set(id, program);
    return program;
  }

  async #drain(program: Program): Promise<void> {
    while (program.waiting.size > 0) {
      const { batch, changes } = this.#take(program);
      if (batch.length === 0) {
        await this.#change(program, changes);
        continue;
      }
      try {
        await this.#call(program, batch);
      } catch (error) {
        for (const waiting of batch) waiting.reject(error);
      }
    }
    program.running = false;
    this.#programs.delete(programId(program.transformation));
  }

  #take({ waiting: all, size }: Program): Taken {
    const { transformEvents, transformBytes } = this.#dependencies;
    const batch: QueuedEvent[] = [];
    const changes = new Set<Promise<void>>();
    let bytes = 0;
    for (const waiting of all) {
      if (batch.length >= Math.min(transformEvents, size.events)) break;
      const { pendingEvent } = waiting.limits;
      try {
        // The one event that may continue while full does not wait for room: the others wait for it.
        const change = this.#pendingOutputs.isFirst(pendingEvent) ? undefined : this.#roomFor(waiting);
        if (change !== undefined) {
          changes.add(change);
          continue;
        }
      } catch (error) {
        all.delete(waiting);
        waiting.reject(error);
        continue;
      }
      bytes += waiting.bytes;
      if (batch.length > 0 && bytes > transformBytes) break;
      all.delete(waiting);
      batch.push(waiting);
    }
    return { batch, changes };
  }

  #roomFor({ context, limits }: QueuedEvent): Promise<void> | undefined {
    return (
      context.room?.() ??
      (this.#pendingOutputs.mayRun(limits.pendingEvent) ? undefined : this.#pendingOutputs.changed())
    );
  }

  /** Resolves when a partition has room again or another event arrives; at once where there is nothing to wait for. */
  async #change(program: Program, changes: ReadonlySet<Promise<void>>): Promise<void> {
    if (changes.size === 0) return;
    const arrival = new Promise<void>((resolve) => {
      program.arrived = resolve;
    });
    await Promise.race([arrival, ...changes]);
  }

  async #call({ transformation, size, waiting: all }: Program, whole: readonly QueuedEvent[]): Promise<void> {
    const { sandbox, failures, runMetrics, catalog, runPiece } = this.#dependencies;
    // It may have changed while its events waited.
    const refused = refusalOf(catalog.state.transformation(transformation.id));
    if (refused !== undefined) {
      for (const waiting of whole) waiting.resolve({ ok: false, kind: 'refused', message: refused });
      return;
    }
    const call = this.#pendingOutputs.call(
      whole.every(({ limits }) => this.#pendingOutputs.isFirst(limits.pendingEvent)),
    );
    const { source_code: source, workspace_id: owner } = transformation;
    const program = { id: programId(transformation), source, owner };
    const inputs = whole.map(({ input }) => input);
    const results = await sandbox.run(program, inputs, { budget: call }).finally(() => call.over());
    size.note(results);
    const batch = whole.slice(0, results.length);
    for (const left of whole.slice(results.length)) if (!left.isTimedOut) all.add(left);
    const excess = batch.map(({ limits }, index) => {
      const result = results[index];
      return result?.ok === true ? excessOf(result.outputs, limits.share) : undefined;
    });
    batch.forEach(({ limits, isTimedOut }, index) => {
      const result = results[index];
      if (result?.ok === true && excess[index] === undefined && !isTimedOut)
        this.#pendingOutputs.add(limits.pendingEvent, charsOf(result));
    });
    const outcomes: Transformed[] = [];
    for (const [index, { event, input }] of batch.entries()) {
      const [result, tooMuch] = [results[index], excess[index]];
      if (result === undefined) throw new Error('the sandbox left a result out');
      if (tooMuch !== undefined) outcomes.push({ ok: false, kind: 'output', message: tooMuch });
      else if (!result.ok || charsOf(result) < SMALL_CHARS)
        outcomes.push(transformedFrom(event, result, input.event));
      else outcomes.push(await transformedInPieces(event, result, input.event, runPiece));
    }
    failures.note(
      transformation,
      // An excess of outputs is due to the number of rules, not a failure of the program.
      outcomes.map((outcome, i) => (outcome.ok || excess[i] !== undefined ? undefined : outcome.kind)),
      lastErrorOf(batch, outcomes),
    );
    runMetrics.note(
      transformation,
      outcomes.map((outcome, index) => ({ outcome, durationMs: results[index]?.durationMs ?? 0 })),
    );
    outcomes.forEach((outcome, index) => {
      batch[index]?.resolve(outcome);
    });
  }
}

/** As `transformedFrom`, for large outputs, in several pieces of work. */
async function transformedInPieces(
  source: CanonicalEvent,
  result: SandboxResult & { readonly ok: true },
  text: string,
  runPiece: RunPiece,
): Promise<Transformed> {
  const events: CanonicalEvent[] = [];
  while (events.length < result.outputs.length) {
    const outputs = pieceOf(result.outputs, events.length);
    const read = () => transformedFrom(source, { ...result, outputs }, text);
    const piece = await runPiece(source.workspace_id, read);
    if (!piece.ok) return piece;
    events.push(...piece.events);
  }
  return { ok: true, events, isLarge: true };
}

/** The message of the last failed run, with values of its event masked: it is kept longer than the event. */
function lastErrorOf(
  batch: readonly { readonly event: CanonicalEvent }[],
  outcomes: readonly Transformed[],
): (() => string) | undefined {
  const index = outcomes.findLastIndex((outcome) => !outcome.ok);
  const [outcome, event] = [outcomes[index], batch[index]?.event];
  if (outcome === undefined || outcome.ok || event === undefined) return undefined;
  return () => messageWithoutValues(outcome.message, event);
}

function programId(transformation: Transformation): string {
  return `${transformation.id}:${transformation.version}`;
}

/**
 * Limits on the deliveries of one event over all matching rules, whatever their transformations return: number, and bytes of
 * the events in them. Ten transformations may return their maximum; with 200 rules, the default maximum of a workspace, each
 * still has 160 KiB and 50 outputs.
 */
const EVENT_OUTPUTS = 10_000;
const EVENT_BYTES = 32 * 1024 * 1024;

/** One output of full size always fits: its event, and the fields that are kept from the source. */
const ONE_OUTPUT_BYTES = MAX_CANONICAL_EVENT_BYTES + OUTPUT_ROOM_BYTES + 4_096;

/** The limits of one rule for one event. */
interface RuleShare {
  readonly outputs: number;
  readonly bytes: number;
  /** Number of rules that share the limits of the event. */
  readonly rules: number;
}

/**
 * The rules of an event share its limits evenly. So the limits of a rule depend neither on the outputs of others nor on the
 * order of execution: a repetition gives the same deliveries and the same dead ones.
 */
export function shareOf(rules: number): RuleShare {
  const among = Math.max(1, rules);
  return {
    outputs: Math.min(MAX_OUTPUTS, Math.max(1, Math.floor(EVENT_OUTPUTS / among))),
    bytes: Math.max(ONE_OUTPUT_BYTES, Math.floor(EVENT_BYTES / among)),
    rules: among,
  };
}

/** Why the outputs of a rule exceed its limits; undefined where they do not. Bytes are UTF-8. */
function excessOf(outputs: readonly string[], share: RuleShare): string | undefined {
  if (outputs.length > share.outputs) {
    return `too much of one event: ${outputs.length} outputs, and each of its ${share.rules} rules may make ${share.outputs}`;
  }
  let bytes = 0;
  for (const output of outputs) bytes += Buffer.byteLength(output);
  if (bytes <= share.bytes) return undefined;
  return `too much of one event: ${bytes} bytes, and each of its ${share.rules} rules may make ${share.bytes}`;
}

/** Characters of the pending outputs of a process: those of unfinished events, over all partitions. */
const PENDING_CHARS = 32 * 1024 * 1024;

/** Characters of outputs after which one call of the sandbox ends. */
const CALL_CHARS = 4 * 1024 * 1024;

/** An event with pending outputs. Outputs that arrive after it is done are dropped. */
interface PendingEvent {
  isDone: boolean;
}

/**
 * The outputs of events whose other rules are still running. While they exceed the limit only one event continues, until it
 * is done. So memory is bounded whatever all programs return at once, and there is always progress.
 */
class PendingOutputs {
  readonly #limit: number;
  readonly #charsOfEvents = new Map<PendingEvent, number>();
  #chars = 0;
  #first: PendingEvent | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(limit = PENDING_CHARS) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#chars >= this.#limit;
  }

  /** Whether the event may run more programs. While full, only the first event that called this may, until released. */
  mayRun(event: PendingEvent): boolean {
    if (!this.isFull) return true;
    this.#first ??= event;
    return this.#first === event;
  }

  /** Whether it is the event that may continue while full. */
  isFirst(event: PendingEvent): boolean {
    return this.#first === event;
  }

  add(event: PendingEvent, chars: number): void {
    if (event.isDone) return;
    this.#chars += chars;
    this.#charsOfEvents.set(event, (this.#charsOfEvents.get(event) ?? 0) + chars);
  }

  /** The event is done or dropped: from now on its outputs count in the window of its partition. */
  release(event: PendingEvent): void {
    event.isDone = true;
    this.#chars -= this.#charsOfEvents.get(event) ?? 0;
    this.#charsOfEvents.delete(event);
    if (this.#first === event) this.#first = undefined;
    this.#wake();
  }

  /** Resolves when something was released. */
  changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Accounts for one sandbox call, whose outputs count from their arrival on. `alone`: it is for the first event. */
  call(alone: boolean): PendingCall {
    let arrived = 0;
    return {
      add: (chars) => {
        arrived += chars;
        this.#chars += chars;
      },
      hasRoom: () => alone || (!this.isFull && arrived < CALL_CHARS),
      over: () => {
        const wasFull = this.isFull;
        this.#chars -= arrived;
        arrived = 0;
        if (wasFull && !this.isFull) this.#wake();
      },
    };
  }

  #wake(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}

interface PendingCall {
  add(chars: number): void;
  hasRoom(): boolean;
  /** The call is over: its outputs were added to their events, or dropped. */
  over(): void;
}

/** Events in the first call of a program, the size of whose outputs is unknown. */
const FIRST_EVENTS = 4;
/** Characters of output that the next call is to have, if its events have as much as those of the last call on average. */
const TARGET_CALL_CHARS = 4 * 1024 * 1024;
/** Limit on the characters of output of a call if each event has as much as the largest so far. */
const WORST_CALL_CHARS = 32 * 1024 * 1024;

/**
 * The number of events in the next call of one program. Calls are limited by their input, but an event may become a hundred
 * of full size, so the number follows the outputs of earlier calls. It doubles at most.
 */
export class CallSize {
  #events = FIRST_EVENTS;
  /** The largest output of an event so far, characters. */
  #most = 1;

  get events(): number {
    return this.#events;
  }

  /** Registers the outputs of a call. */
  note(results: readonly SandboxResult[]): void {
    if (results.length === 0) return;
    let chars = 1;
    for (const result of results) {
      const made = charsOf(result);
      chars += made;
      this.#most = Math.max(this.#most, made);
    }
    const usual = Math.floor((TARGET_CALL_CHARS * results.length) / chars);
    const worst = Math.floor(WORST_CALL_CHARS / this.#most);
    const grown = Math.max(this.#events, results.length * 2);
    this.#events = Math.max(1, Math.min(grown, usual, worst));
  }
}

function charsOf(result: SandboxResult): number {
  return result.ok ? result.outputs.reduce((chars, output) => chars + output.length, 0) : 0;
}

/** Transformations that are watched at a time. */
const WATCHED = 10_000;

interface FailureWatchDependencies {
  readonly catalog: Pick<Catalog, 'propose'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits: FailureLimits;
}

interface Watched {
  readonly version: number;
  rate: FailureRate;
  /** A proposal is under way or was decided; there is one for each version. */
  proposed: boolean;
}

/**
 * Sets a transformation that keeps failing to the status `error`, so that its events become dead deliveries without a run.
 * Each process watches its own runs; the process with the most runs notices first.
 */
export class FailureWatch {
  readonly #dependencies: FailureWatchDependencies;
  readonly #watched = new LRUCache<string, Watched>({ max: WATCHED });

  constructor(dependencies: FailureWatchDependencies) {
    this.#dependencies = dependencies;
  }

  /** Registers the results of runs, in order. `lastError` returns the message of the last failure, for display. */
  note(
    transformation: Transformation,
    outcomes: readonly RunFailure[],
    lastError: (() => string) | undefined,
  ): void {
    const { limits } = this.#dependencies;
    const watched = this.#of(transformation);
    if (watched === undefined) return;
    watched.rate = afterRuns(watched.rate, outcomes, limits);
    if (lastError === undefined || watched.proposed || !isFailing(watched.rate, limits)) return;
    watched.proposed = true;
    void this.#propose(transformation, lastError()).then((decided) => {
      watched.proposed = decided;
    });
  }

  /** Undefined for late runs of an older version. */
  #of(transformation: Transformation): Watched | undefined {
    const known = this.#watched.get(transformation.id);
    if (known !== undefined && known.version > transformation.version) return undefined;
    const { version } = transformation;
    const watched = known?.version === version ? known : { version, rate: NO_RUNS, proposed: false };
    this.#watched.set(transformation.id, watched);
    return watched;
  }

  /**
   * Returns false where the catalog did not respond: the next failure proposes it again. A conflict means that the
   * transformation was changed meanwhile, so the failures were of an old version.
   */
  async #propose(transformation: Transformation, lastError: string): Promise<boolean> {
    const { catalog, clock, logger } = this.#dependencies;
    const about = { transformation: transformation.id, version: transformation.version };
    try {
      const verdict = await catalog.propose({
        v: 1,
        type: 'transformation.updated',
        entity: transformation.id,
        expected_version: transformation.version,
        data: { status: 'error', last_error: lastError },
        by: 'stage:route',
        from: { address: '', request_id: '' },
        at: iso(clock()),
      });
      if (verdict.applied) logger.warn(about, 'transformation keeps failing: set to error');
      return true;
    } catch (error) {
      logger.error(
        { ...about, error: messageOf(error) },
        'transformation keeps failing, not yet set to error',
      );
      return false;
    }
  }
}

/** When a transformation counts as failing in production. */
export type FailureLimits = Readonly<typeof DEFAULT_FAILURE_LIMITS>;

export const DEFAULT_FAILURE_LIMITS = {
  /** Number of latest runs that count. */
  window: 100,
  /** Runs in the window before the share of failures counts. */
  minimumRuns: 20,
  /** Failing when more than this share of the window failed. */
  share: 0.5,
  /** Failing after this many timeouts or memory kills in a row, as each delays other programs. */
  killsInARow: 5,
};

/** How one event's run ended; undefined = well. */
export type RunFailure = SandboxErrorKind | undefined;

/** The latest runs of one version of a transformation, oldest first; true = failed. */
interface FailureRate {
  readonly runs: readonly boolean[];
  readonly killsInARow: number;
}

export const NO_RUNS: FailureRate = { runs: [], killsInARow: 0 };

export function afterRuns(
  rate: FailureRate,
  outcomes: readonly RunFailure[],
  limits: FailureLimits,
): FailureRate {
  let { killsInARow } = rate;
  for (const outcome of outcomes) {
    if (killsInARow >= limits.killsInARow) break;
    killsInARow = outcome === 'timeout' || outcome === 'memory' ? killsInARow + 1 : 0;
  }
  const runs = [...rate.runs, ...outcomes.map((outcome) => outcome !== undefined)].slice(-limits.window);
  return { runs, killsInARow };
}

export function isFailing(rate: FailureRate, limits: FailureLimits): boolean {
  if (rate.killsInARow >= limits.killsInARow) return true;
  const failed = rate.runs.filter(Boolean).length;
  return rate.runs.length >= limits.minimumRuns && failed > rate.runs.length * limits.share;
}

/** A common substring of message and event counts as a value of the event from this length on. */
const SHORTEST_VALUE = 6;
const MASK = '***';

/**
 * The message of a failure with values of the event masked, also partial ones, as engines truncate what they quote. Messages
 * are stored in the catalog without expiry, and are visible to everyone who may see the transformation; events are not.
 */
export function messageWithoutValues(message: string, event: CanonicalEvent): string {
  const values = valuesIn(event).join('\n');
  let shown = '';
  let at = 0;
  while (at < message.length) {
    let end = at + SHORTEST_VALUE;
    if (end > message.length || !values.includes(message.slice(at, end))) {
      shown += message.charAt(at++);
      continue;
    }
    while (end < message.length && values.includes(message.slice(at, end + 1))) end++;
    shown += MASK;
    at = end;
  }
  return shown;
}

/** The values that the producer chose; names of fields are not masked. */
function valuesIn({ type, environment, ...event }: CanonicalEvent): readonly string[] {
  return leavesOf(event);
}

function leavesOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(leavesOf);
}
