import {
  type CanonicalEvent,
  type Clock,
  type Sandbox,
  type SandboxInput,
  type SandboxResult,
  type StageContext,
  type Transformation,
  type Transformed,
  transformedFrom,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import { pieceOf, type RunPiece, SMALL_CHARS } from '../fairness/slow-queue-scheduler.ts';
import { TimeoutWheel } from '../fairness/timeout-wheel.ts';
import { type FailureWatch, messageWithoutValues } from './failure-watch.ts';
import {
  CallSize,
  charsOf,
  excessOf,
  type PendingEvent,
  PendingOutputs,
  type RuleShare,
} from './output-limits.ts';
import type { RunMetrics } from './run-metrics.ts';

/** Programs whose call sizes are remembered. */
const KNOWN_PROGRAMS = 10_000;

export interface TransformerDependencies {
  readonly sandbox: Sandbox;
  readonly failures: Pick<FailureWatch, 'note'>;
  readonly runMetrics: Pick<RunMetrics, 'note'>;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  /** Events of one sandbox call at most. */
  readonly maxEvents: number;
  /** Bytes of events in one sandbox call at most; a larger event is sent alone. */
  readonly maxBytes: number;
  /** Runs a piece of the work on large outputs. */
  readonly runPiece: RunPiece;
  /** Why the transformation must not run any more, checked before each call; undefined where it may. */
  refusal(transformation: Transformation): string | undefined;
}

/** Not run, because of the status of the transformation. */
export interface NotRun {
  readonly ok: false;
  readonly kind: 'refused';
  readonly message: string;
}

/** The run timed out; its result is dropped. */
export type TooSlow = 'too slow';

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

  /** Ms of a monotonic clock. */
  get elapsed(): Clock {
    return this.#dependencies.elapsed;
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

  /** Runs a piece of the work on large outputs. */
  get runPiece(): RunPiece {
    return this.#dependencies.runPiece;
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
    const { maxEvents, maxBytes } = this.#dependencies;
    const batch: QueuedEvent[] = [];
    const changes = new Set<Promise<void>>();
    let bytes = 0;
    for (const waiting of all) {
      if (batch.length >= Math.min(maxEvents, size.events)) break;
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
      if (batch.length > 0 && bytes > maxBytes) break;
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
    const { sandbox, failures, runMetrics, refusal, runPiece } = this.#dependencies;
    const refused = refusal(transformation);
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
