import type { CanonicalEvent, Clock, Metrics, Sandbox, SandboxInput, Transformation } from '@tributary/core';
import { Patience } from '../patience.ts';
import type { FailureWatch } from './failure-watch.ts';
import { type Transformed, transformedFrom } from './output.ts';

export interface TransformerDependencies {
  readonly sandbox: Sandbox;
  readonly failures: Pick<FailureWatch, 'note'>;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Events one sandbox call takes at most. */
  readonly maxEvents: number;
  /** Bytes of events one sandbox call takes at most; a larger one goes alone. */
  readonly maxBytes: number;
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

interface Waiting {
  readonly event: CanonicalEvent;
  readonly input: SandboxInput;
  readonly bytes: number;
  /** The caller has gone on without it. */
  abandoned: boolean;
  resolve(outcome: Transformed | NotRun | TooSlow): void;
  reject(error: unknown): void;
}

interface Program {
  readonly transformation: Transformation;
  readonly waiting: Waiting[];
  running: boolean;
}

/**
 * Runs events through transformations in batches without a linger: what gathered while a program's previous call ran
 * goes as the next one. One call per program at a time.
 */
export class Transformer {
  readonly #dependencies: TransformerDependencies;
  readonly #programs = new Map<string, Program>();
  readonly #patience: Patience;

  constructor(dependencies: TransformerDependencies) {
    this.#dependencies = dependencies;
    this.#patience = new Patience(dependencies.clock);
  }

  /**
   * Rejects with what the sandbox threw (`Unavailable`); a failing event is an answer. `too slow` after `patienceMs`:
   * code has no effects, so the event can be run again where it delays nobody.
   */
  run(
    transformation: Transformation,
    event: CanonicalEvent,
    input: SandboxInput,
    patienceMs?: number,
  ): Promise<Transformed | NotRun | TooSlow> {
    const program = this.#programOf(transformation);
    return new Promise((resolve, reject) => {
      const bytes = Buffer.byteLength(input.event);
      const waiting: Waiting = { event, input, bytes, abandoned: false, resolve, reject };
      if (patienceMs !== undefined) {
        const answered = this.#patience.wait(patienceMs, () => {
          waiting.abandoned = true;
          resolve('too slow');
        });
        waiting.resolve = (outcome) => {
          answered();
          resolve(outcome);
        };
        waiting.reject = (error) => {
          answered();
          reject(error);
        };
      }
      program.waiting.push(waiting);
      if (program.running) return;
      program.running = true;
      setImmediate(() => void this.#drain(program));
    });
  }

  #programOf(transformation: Transformation): Program {
    const id = programId(transformation);
    const known = this.#programs.get(id);
    if (known !== undefined) return known;
    const program = { transformation, waiting: [], running: false };
    this.#programs.set(id, program);
    return program;
  }

  async #drain(program: Program): Promise<void> {
    while (program.waiting.length > 0) {
      const batch = this.#take(program);
      if (batch.length === 0) continue;
      try {
        await this.#call(program.transformation, batch);
      } catch (error) {
        for (const waiting of batch) waiting.reject(error);
      }
    }
    program.running = false;
    this.#programs.delete(programId(program.transformation));
  }

  #take({ waiting }: Program): readonly Waiting[] {
    const { maxEvents, maxBytes } = this.#dependencies;
    let bytes = 0;
    let count = 0;
    for (const { bytes: more } of waiting.slice(0, maxEvents)) {
      bytes += more;
      if (count > 0 && bytes > maxBytes) break;
      count += 1;
    }
    return waiting.splice(0, count).filter(({ abandoned }) => !abandoned);
  }

  async #call(transformation: Transformation, batch: readonly Waiting[]): Promise<void> {
    const { sandbox, failures, metrics, refusal } = this.#dependencies;
    const refused = refusal(transformation);
    if (refused !== undefined) {
      for (const waiting of batch) waiting.resolve({ ok: false, kind: 'refused', message: refused });
      return;
    }
    const program = { id: programId(transformation), source: transformation.source_code };
    const results = await sandbox.run(
      program,
      batch.map(({ input }) => input),
    );
    const outcomes = batch.map(({ event }, index): Transformed => {
      const result = results[index];
      if (result === undefined) throw new Error('the sandbox answered for fewer events than it was given');
      return transformedFrom(event, result);
    });
    const failed = outcomes.filter((outcome) => !outcome.ok);
    failures.note(
      transformation,
      outcomes.map((outcome) => (outcome.ok ? undefined : outcome.kind)),
      failed.at(-1)?.message,
    );
    outcomes.forEach((outcome, index) => {
      metrics.count('tributary_transformation_runs_total', { outcome: outcome.ok ? 'ok' : outcome.kind });
      batch[index]?.resolve(outcome);
    });
  }
}

function programId(transformation: Transformation): string {
  return `${transformation.id}:${transformation.version}`;
}
