import {
  type BatchStage,
  backoffMs,
  type LogEntry,
  messageOf,
  type OutputRecord,
  TooLarge,
} from '@tributary/core';
import type { Taken } from './cursor.ts';
import { checkEmissions } from './emissions.ts';
import { failureOf } from './failure.ts';
import { type Range, SplitPlan } from './split.ts';
import { pause, unlessAborted } from './waiting.ts';
import { giveUp, quarantine, type Work, withoutEntry } from './work.ts';

/**
 * Hands a batch of one partition to its stage and commits it, in parts where it throws. Resolves when all of it is
 * committed or, where nothing was emitted, reached; and, once it is to stop, when an engine does not answer: whoever is
 * next waits for that. Rejects with the stage's `Rewind` or `Fenced`, with `PartitionLost`, or with the signal's reason; what
 * was committed until then is the committer's to say. `taken` is wholly before or wholly behind the committed position.
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
        await treatTooLarge(plan, part, thrown, work);
        continue;
      }
      if (!(thrown instanceof StageThrew)) throw thrown;
      if (failureOf(thrown.cause) === 'repeat') {
        await repeatLater(thrown.cause, part, repetition++, work);
        if (work.stopping.aborted) return;
      } else if (failureOf(thrown.cause) === 'throw') await treatThrow(plan, range, part, thrown.cause, work);
      else throw thrown.cause;
    }
  }
}

/** Commits an entry that is given up unseen. Rejects as `workBatch`. */
export function quarantineTaken(taken: Taken, reason: string, work: Work): Promise<void> {
  return commitPart([taken], quarantine(work, taken.entry, reason), work);
}

/** Notes the part as in hand from before the stage sees it until it is committed. */
async function noted<T>(part: readonly Taken[], { inHand }: Work, work: () => Promise<T>): Promise<T> {
  const [first, last] = [part[0], part.at(-1)];
  if (first !== undefined) inHand.take(first.entry);
  if (last !== undefined) inHand.take(last.entry);
  try {
    return await work();
  } finally {
    inHand.clear();
  }
}

/** Tells what the stage threw from what the commit behind it threw. */
class StageThrew extends Error {}

/** How many of the first entries were done. */
async function workPart(stage: BatchStage, part: readonly Taken[], work: Work): Promise<number> {
  let entries = part.length;
  const emissions = await handOver(stage, part, work, (first) => {
    entries = Math.max(1, Math.min(first, part.length));
  });
  await commitPart(part.slice(0, entries), emissions, work);
  return entries;
}

async function handOver(
  stage: BatchStage,
  part: readonly Taken[],
  work: Work,
  endBatch: (entries: number) => void,
): Promise<readonly OutputRecord[]> {
  work.signal.throwIfAborted();
  const entries: readonly LogEntry[] = part.map((taken) => taken.entry);
  const position = entries[0]?.position;
  if (!position) return [];
  const { topic, partition } = position;
  work.metrics.count('tributary_stage_batches_total', { stage: work.stage });
  try {
    // A stage may throw before its first await.
    const processed = (async () =>
      stage.process({ topic, partition, entries }, { ...work.context, endBatch }))();
    const emissions = await unlessAborted(processed, work.signal);
    checkEmissions(emissions, work.writes);
    return emissions;
  } catch (thrown) {
    work.signal.throwIfAborted();
    throw new StageThrew('stage threw', { cause: thrown });
  }
}

async function commitPart(
  part: readonly Taken[],
  emissions: readonly OutputRecord[],
  work: Work,
): Promise<void> {
  const last = part.at(-1);
  if (last === undefined) return;
  if (emissions.length === 0 && work.positionsMayWait) await work.committer.reach(last.after, work.signal);
  else await work.committer.commit(last.after, emissions, work.signal);
}

/**
 * The log takes no record of the size of one that the part emitted: nothing of the part was committed. It is halved
 * until the guilty entry stands alone, which is given up at once, as the same again would be as large.
 */
async function treatTooLarge(
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
  await commitPart([guilty], giveUp(work, guilty.entry, thrown), work).catch(async (again: unknown) => {
    if (!(again instanceof TooLarge)) throw again;
    await commitPart([guilty], [withoutEntry(work, guilty.entry, thrown)], work);
  });
  plan.done();
}

async function repeatLater(
  cause: unknown,
  part: readonly Taken[],
  repetition: number,
  work: Work,
): Promise<void> {
  const { stage, logger, backoff, signal, stopping } = work;
  const fields = { stage, position: part[0]?.entry.position, repetition, error: messageOf(cause) };
  logger.warn(fields, 'an engine does not answer; the batch will be repeated');
  await pause(backoffMs(repetition, backoff), AbortSignal.any([signal, stopping]));
}

async function treatThrow(
  plan: SplitPlan,
  range: Range,
  part: readonly Taken[],
  cause: unknown,
  work: Work,
): Promise<void> {
  const { stage, logger, backoff, signal } = work;
  const verdict = plan.threw();
  const guilty = part[0];
  const fields = {
    stage,
    position: guilty?.entry.position,
    entries: range.to - range.from,
    error: messageOf(cause),
  };
  logger.warn(fields, 'stage threw');
  if (verdict.kind === 'again') await pause(backoffMs(verdict.throws - 1, backoff), signal);
  if (verdict.kind === 'poison' && guilty) {
    await commitPart([guilty], giveUp(work, guilty.entry, cause), work);
    plan.done();
  }
}
