import type {
  CanonicalEvent,
  Clock,
  Sandbox,
  SandboxInput,
  StageContext,
  Transformation,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import { type InTurn, SMALL_CHARS } from '../fairness/pieces.ts';
import { TimeoutWheel } from '../timeout-wheel.ts';
import { CallSize, charsOf } from './call-size.ts';
import { excessOf, type RuleShare } from './event-bounds.ts';
import type { FailureWatch } from './failure-watch.ts';
import { messageWithoutValues } from './message-without-values.ts';
import { type Transformed, transformedFrom, transformedInPieces } from './output.ts';
import { type Holder, OutputsInHand } from './outputs-in-hand.ts';
import type { RunFigures } from './run-figures.ts';

/** Programs whose sizes of calls are remembered. */
const KNOWN_PROGRAMS = 10_000;

export interface TransformerDependencies {
  readonly sandbox: Sandbox;
  readonly failures: Pick<FailureWatch, 'note'>;
  readonly figures: Pick<RunFigures, 'note'>;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  /** Events one sandbox call takes at most. */
  readonly maxEvents: number;
  /** Bytes of events one sandbox call takes at most; a larger one goes alone. */
  readonly maxBytes: number;
  /** Runs a piece of the work on large outputs. */
  readonly inTurn: InTurn;
  /** Why no more events of the transformation may run, asked before each call; undefined when they may. */
  refusal(transformation: Transformation): string | undefined;
}

/** Not run: the transformation is in no state to. */
export interface NotRun {
  readonly ok: false;
  readonly kind: 'refused';
  readonly message: string;
}

/** It takes longer than the caller has patience for. What it will come to is dropped. */
export type TooSlow = 'too slow';

/** The bounds of one event, and the holder of its outputs until all its rules are done. */
export interface Bounds {
  readonly holder: Holder;
  readonly share: RuleShare;
}

interface Waiting {
  readonly event: CanonicalEvent;
  readonly input: SandboxInput;
  readonly bytes: number;
  readonly context: Pick<StageContext, 'room'>;
  readonly bounds: Bounds;
  /** Nobody waits for it any more. */
  isGone: boolean;
  resolve(outcome: Transformed | NotRun | TooSlow): void;
  reject(error: unknown): void;
}

interface Program {
  readonly transformation: Transformation;
  readonly waiting: Set<Waiting>;
  readonly size: CallSize;
  running: boolean;
  /** Something came while there was no room for what waits. */
  arrived: () => void;
}

/** The events of one call; when there are none, what to wait for. */
interface Taken {
  readonly batch: readonly Waiting[];
  readonly changes: ReadonlySet<Promise<void>>;
}

/**
 * Runs events through transformations in batches without a linger: what gathered while a program's previous call ran
 * goes as the next one. One call per program at a time, of a size that its outputs allow, with events whose
 * partition has room for what they may come to.
 */
export class Transformer {
  readonly #dependencies: TransformerDependencies;
  readonly #programs = new Map<string, Program>();
  readonly #sizes = new LRUCache<string, CallSize>({ max: KNOWN_PROGRAMS });
  readonly #timeouts: TimeoutWheel;
  readonly #inHand = new OutputsInHand();

  constructor(dependencies: TransformerDependencies) {
    this.#dependencies = dependencies;
    this.#timeouts = new TimeoutWheel(dependencies.elapsed);
  }

  /** Ms that never go back. */
  get elapsed(): Clock {
    return this.#dependencies.elapsed;
  }

  /**
   * Rejects with what the sandbox threw (`Unavailable`), and once the partition was left; a failing event is an
   * answer. `too slow` after `patienceMs`: code has no effects, so the event can be run again where it delays nobody.
   */
  run(
    transformation: Transformation,
    event: CanonicalEvent,
    input: SandboxInput,
    context: Pick<StageContext, 'room'>,
    bounds: Bounds,
    patienceMs?: number,
  ): Promise<Transformed | NotRun | TooSlow> {
    const program = this.#programOf(transformation);
    return new Promise((resolve, reject) => {
      const bytes = Buffer.byteLength(input.event);
      const waiting: Waiting = { event, input, bytes, context, bounds, isGone: false, resolve, reject };
      if (patienceMs !== undefined) {
        const timeout = this.#timeouts.start(patienceMs, () => {
          program.waiting.delete(waiting);
          waiting.isGone = true;
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
  get inTurn(): InTurn {
    return this.#dependencies.inTurn;
  }

  /** All rules of an event are done, for now: its outputs are held by others, or not at all. */
  release(holder: Holder): void {
    this.#inHand.release(holder);
  }

  #programOf(transformation: Transformation): Program {
    const id = programId(transformation);
    const known = this.#programs.get(id);
    if (known !== undefined) return known;
    const size = this.#sizes.get(id) ?? new CallSize();
    this.#sizes.set(id, size);
    const program = { transformation, waiting: new Set<Waiting>(), size, running: false, arrived: () => {} };
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
    const batch: Waiting[] = [];
    const changes = new Set<Promise<void>>();
    let bytes = 0;
    for (const waiting of all) {
      if (batch.length >= Math.min(maxEvents, size.events)) break;
      const { holder } = waiting.bounds;
      try {
        // The one that goes on while all is full waits for nothing else: others wait for it.
        const change = this.#inHand.isFirst(holder) ? undefined : this.#roomFor(waiting);
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

  #roomFor({ context, bounds }: Waiting): Promise<void> | undefined {
    return context.room?.() ?? (this.#inHand.mayRun(bounds.holder) ? undefined : this.#inHand.changed());
  }

  /** Resolves when a partition has made room, or something else waits; at once when nothing is to be waited for. */
  async #change(program: Program, changes: ReadonlySet<Promise<void>>): Promise<void> {
    if (changes.size === 0) return;
    const arrival = new Promise<void>((resolve) => {
      program.arrived = resolve;
    });
    await Promise.race([arrival, ...changes]);
  }

  async #call({ transformation, size, waiting: all }: Program, whole: readonly Waiting[]): Promise<void> {
    const { sandbox, failures, figures, refusal, inTurn } = this.#dependencies;
    const refused = refusal(transformation);
    if (refused !== undefined) {
      for (const waiting of whole) waiting.resolve({ ok: false, kind: 'refused', message: refused });
      return;
    }
    const call = this.#inHand.call(whole.every(({ bounds }) => this.#inHand.isFirst(bounds.holder)));
    const { source_code: source, workspace_id: owner } = transformation;
    const program = { id: programId(transformation), source, owner };
    const inputs = whole.map(({ input }) => input);
    const results = await sandbox.run(program, inputs, { budget: call }).finally(() => call.over());
    size.note(results);
    const batch = whole.slice(0, results.length);
    for (const left of whole.slice(results.length)) if (!left.isGone) all.add(left);
    const excess = batch.map(({ bounds }, index) => {
      const result = results[index];
      return result?.ok === true ? excessOf(result.outputs, bounds.share) : undefined;
    });
    batch.forEach(({ bounds, isGone }, index) => {
      const result = results[index];
      if (result?.ok === true && excess[index] === undefined && !isGone)
        this.#inHand.hold(bounds.holder, charsOf(result));
    });
    const outcomes: Transformed[] = [];
    for (const [index, { event, input }] of batch.entries()) {
      const [result, tooMuch] = [results[index], excess[index]];
      if (result === undefined) throw new Error('the sandbox left a result out');
      if (tooMuch !== undefined) outcomes.push({ ok: false, kind: 'output', message: tooMuch });
      else if (!result.ok || charsOf(result) < SMALL_CHARS)
        outcomes.push(transformedFrom(event, result, input.event));
      else outcomes.push(await transformedInPieces(event, result, input.event, inTurn));
    }
    failures.note(
      transformation,
      // It is the number of rules that leaves no room: no reason to run the code no more.
      outcomes.map((outcome, i) => (outcome.ok || excess[i] !== undefined ? undefined : outcome.kind)),
      lastErrorOf(batch, outcomes),
    );
    figures.note(
      transformation,
      outcomes.map((outcome, index) => ({ outcome, durationMs: results[index]?.durationMs ?? 0 })),
    );
    outcomes.forEach((outcome, index) => {
      batch[index]?.resolve(outcome);
    });
  }
}

/** The message of the last run that failed, told without the values of its event: it is kept longer than that. */
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
