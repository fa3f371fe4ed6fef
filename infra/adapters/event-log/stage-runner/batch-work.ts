import {
  type BatchStage,
  backoffMs,
  type LogEntry,
  messageOf,
  type OutputRecord,
  POISON_ATTEMPTS,
  type StageContext,
  Tally,
  TooLarge,
} from '@tributary/core';
import {
  checkOutputRecords,
  deadLetter,
  deadLetterTooLarge,
  failureOf,
  pause,
  quarantine,
  type Taken,
  unlessAborted,
  type Work,
} from './work.ts';

/**
 * Runs a stage on a batch of one partition and commits it, in parts where the stage throws. Resolves when the batch is
 * committed (without output records: reached), and also where an engine is unavailable while the stage stops, as the next
 * owner waits. Rejects with the stage's `Rewind` or `Fenced`, with `PartitionLost`, or with the signal's reason; the
 * committer has the position until then. `taken` is wholly before or wholly behind the committed position.
 */
export async function workBatch(stage: BatchStage, taken: readonly Taken[], work: Work): Promise<void> {
  const plan = new SplitPlan(taken.length);
  let repetition = 0;
  for (let range = plan.next(); range; range = plan.next()) {
    const part = taken.slice(range.from, range.to);
    try {
      plan.done(await noted(part, work, () => workPart(stage, part, work)));
      repetition = 0;
    } catch (thrown) {
      if (thrown instanceof TooLarge) {
        await afterTooLarge(plan, part, thrown, work);
        continue;
      }
      if (!(thrown instanceof StageThrew)) throw thrown;
      if (failureOf(thrown.cause) === 'repeat') {
        await repeatLater(thrown.cause, part, repetition++, work);
        if (work.stopping.aborted) return;
      } else if (failureOf(thrown.cause) === 'throw') await afterThrow(plan, range, part, thrown.cause, work);
      else throw thrown.cause;
    }
  }
}

/** Dead-letters an entry that the stage does not get. Rejects as `workBatch`. */
export function quarantineTaken(taken: Taken, reason: string, work: Work): Promise<void> {
  return commitPart([taken], quarantine(work, taken.entry, reason), work);
}

/** The entries of the part are in flight from before their dispatch until their commit. */
async function noted<T>(part: readonly Taken[], { inFlight }: Work, work: () => Promise<T>): Promise<T> {
  const [first, last] = [part[0], part.at(-1)];
  if (first !== undefined) inFlight.take(first.entry);
  if (last !== undefined) inFlight.take(last.entry);
  try {
    return await work();
  } finally {
    inFlight.clear();
  }
}

/** Wraps errors of the stage, to tell them from errors of the commit. */
class StageThrew extends Error {}

/** The number of entries that were committed, from the first on. */
async function workPart(stage: BatchStage, part: readonly Taken[], work: Work): Promise<number> {
  let entries = part.length;
  const tally = new Tally();
  const outputRecords = await dispatch(stage, part, work, {
    endBatch(first) {
      entries = Math.max(1, Math.min(first, part.length));
    },
    count: (note) => tally.add(note),
  });
  await commitPart(part.slice(0, entries), outputRecords, work, tally);
  return entries;
}

async function dispatch(
  stage: BatchStage,
  part: readonly Taken[],
  work: Work,
  callbacks: Required<Pick<StageContext, 'endBatch' | 'count'>>,
): Promise<readonly OutputRecord[]> {
  work.signal.throwIfAborted();
  const entries: readonly LogEntry[] = part.map((taken) => taken.entry);
  const position = entries[0]?.position;
  if (!position) return [];
  const { topic, partition } = position;
  work.runner.metrics.count('tributary_stage_batches_total', { stage: stage.name });
  try {
    // A stage may throw before its first await.
    const processed = (async () =>
      stage.process({ topic, partition, entries }, { ...work.context, ...callbacks }))();
    const outputRecords = await unlessAborted(processed, work.signal);
    checkOutputRecords(outputRecords, stage);
    return outputRecords;
  } catch (thrown) {
    work.signal.throwIfAborted();
    throw new StageThrew('stage threw', { cause: thrown });
  }
}

async function commitPart(
  part: readonly Taken[],
  outputRecords: readonly OutputRecord[],
  work: Work,
  tally?: Tally,
): Promise<void> {
  const last = part.at(-1);
  if (last === undefined) return;
  const { committer, signal, stage } = work;
  const isVisible = stage.kind === 'batch' && stage.repeats === 'visible';
  if (outputRecords.length === 0 && !isVisible) await committer.reach(last.after, signal, tally);
  else await committer.commit(last.after, outputRecords, signal, tally);
}

/**
 * An output record is larger than its topic takes, and nothing of the part was committed. The part is halved until the
 * guilty entry stands alone, which is dead-lettered at once: a repetition would be as large.
 */
async function afterTooLarge(
  plan: SplitPlan,
  part: readonly Taken[],
  thrown: TooLarge,
  work: Work,
): Promise<void> {
  const [guilty] = part;
  if (part.length > 1 || guilty === undefined) {
    plan.threw();
    return;
  }
  const { position, key } = guilty.entry;
  await commitPart([guilty], [deadLetterTooLarge(work, position, key, thrown)], work);
  plan.done();
}

async function repeatLater(
  cause: unknown,
  part: readonly Taken[],
  repetition: number,
  work: Work,
): Promise<void> {
  const { stage, runner, signal, stopping } = work;
  const fields = {
    stage: stage.name,
    position: part[0]?.entry.position,
    repetition,
    error: messageOf(cause),
  };
  runner.logger.warn(fields, 'an engine does not answer; the batch will be repeated');
  await pause(backoffMs(repetition, runner.backoff), AbortSignal.any([signal, stopping]));
}

async function afterThrow(
  plan: SplitPlan,
  range: Range,
  part: readonly Taken[],
  cause: unknown,
  work: Work,
): Promise<void> {
  const { stage, runner, signal } = work;
  const verdict = plan.threw();
  const guilty = part[0];
  const fields = {
    stage: stage.name,
    position: guilty?.entry.position,
    entries: range.to - range.from,
    error: messageOf(cause),
  };
  runner.logger.warn(fields, 'a stage failed on a record and tries it again');
  if (verdict.kind === 'again') await pause(backoffMs(verdict.throws - 1, runner.backoff), signal);
  if (verdict.kind === 'poison' && guilty) {
    await commitPart([guilty], deadLetter(work, guilty.entry, cause), work);
    plan.done();
  }
}

/** Entries `from` (inclusive) to `to` (exclusive) of a batch. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * The part of a batch to dispatch next. A part that throws is halved until the guilty entry stands alone, which is
 * dispatched until it has thrown `POISON_ATTEMPTS` times. Parts come in order, so that each can be committed.
 */
export class SplitPlan {
  /** The next part is last. */
  readonly #parts: Range[];
  #throws = 0;

  constructor(length: number) {
    this.#parts = length > 0 ? [{ from: 0, to: length }] : [];
  }

  next(): Range | undefined {
    return this.#parts.at(-1);
  }

  /** The first entries of the part are done or dead-lettered, by default all. */
  done(entries = Number.POSITIVE_INFINITY): void {
    const part = this.#parts.pop();
    this.#throws = 0;
    if (part !== undefined && part.from + entries < part.to)
      this.#parts.push({ from: part.from + entries, to: part.to });
  }

  /** The part threw. `poison`: its one entry is to be dead-lettered; `again`: it threw `throws` times so far. */
  threw(): { readonly kind: 'split' | 'poison' } | { readonly kind: 'again'; readonly throws: number } {
    const part = this.next();
    if (part && part.to - part.from > 1) {
      const middle = (part.from + part.to) >> 1;
      this.#parts.pop();
      this.#parts.push({ from: middle, to: part.to }, { from: part.from, to: middle });
      return { kind: 'split' };
    }
    this.#throws++;
    return this.#throws >= POISON_ATTEMPTS ? { kind: 'poison' } : { kind: 'again', throws: this.#throws };
  }
}
