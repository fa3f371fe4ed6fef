import type { Clock, Mismatch, OutputRecord, Rule, StageNote } from '@tributary/core';
import type { Routed } from './delivery.ts';
import { type AppliedRule, appliedNotes, notTakenNote } from './route-notes.ts';

/** Rules of one event that run concurrently: each may hold outputs up to its limits. */
const AT_ONCE = 8;

/** Bytes of output records after which the remaining rules become a record of the slow queue. */
const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * The result of a rule for an event, the reason why its destination takes none, or `slow` where its transformation has
 * used up its share of the window.
 */
export type Applied = AppliedRule | { readonly notTaken: Mismatch['because'] } | 'slow';

/** The output records of some rules, in their order, and the rules that are still to be applied. */
interface Piece {
  readonly outputRecords: OutputRecord[];
  readonly notes: readonly StageNote[];
  readonly left: readonly Rule[];
}

/**
 * Applies rules until their output records suffice for one commit, or until it took long. The other rules become a record
 * of the slow queue, so the memory of an event is bounded however many rules match it.
 */
export async function applyInPieces(
  routed: Routed,
  rules: readonly Rule[],
  apply: (rule: Rule) => Promise<Applied>,
  limits: { readonly elapsed: Clock; readonly slowAfterMs: number },
): Promise<Piece> {
  const outputRecords: OutputRecord[] = [];
  const notes: StageNote[] = [];
  const slow: Rule[] = [];
  const since = limits.elapsed();
  let bytes = 0;
  let at = 0;
  do {
    const together = rules.slice(at, at + AT_ONCE);
    const applied = await Promise.all(together.map(apply));
    for (const [i, made] of applied.entries()) {
      const rule = together[i];
      if (rule === undefined) continue;
      if (made === 'slow') slow.push(rule);
      else if ('notTaken' in made) notes.push(notTakenNote(routed, rule, made.notTaken));
      else {
        notes.push(...appliedNotes(routed, rule, made));
        for (const outputRecord of made.outputRecords) {
          outputRecords.push(outputRecord);
          bytes += outputRecord.value.length;
        }
      }
    }
    at += together.length;
  } while (at < rules.length && bytes < PIECE_BYTES && limits.elapsed() - since < limits.slowAfterMs);
  return { outputRecords, notes, left: [...slow, ...rules.slice(at)] };
}
