import type { Clock, OutputRecord, Rule } from '@tributary/core';

/** Rules of one event that are at work at a time: each may hold all that its share allows. */
const AT_ONCE = 8;

/** Bytes of emissions after which the rules that are left become an entry of their own. */
const PIECE_BYTES = 4 * 1024 * 1024;

/** One rule applied: its emissions, or `slow` when its transformation has its share of the window already. */
export type Applied = readonly OutputRecord[] | 'slow';

/** What a piece of an event's rules made, in their order, and the rules that are still to be done. */
export interface Piece {
  readonly emissions: OutputRecord[];
  readonly left: readonly Rule[];
}

/**
 * Applies rules until what they made is enough for one commit, or took long enough: the rest goes on as an entry of the
 * slow lane, so no event holds more than a piece of what it becomes, however many rules it matches.
 */
export async function inPieces(
  rules: readonly Rule[],
  apply: (rule: Rule) => Promise<Applied>,
  limits: { readonly elapsed: Clock; readonly slowAfterMs: number },
): Promise<Piece> {
  const emissions: OutputRecord[] = [];
  const slow: Rule[] = [];
  const since = limits.elapsed();
  let bytes = 0;
  let at = 0;
  do {
    const together = rules.slice(at, at + AT_ONCE);
    const applied = await Promise.all(together.map(apply));
    for (const [i, made] of applied.entries()) {
      const rule = together[i];
      if (made !== 'slow') {
        for (const emission of made) {
          emissions.push(emission);
          bytes += emission.value.length;
        }
      } else if (rule !== undefined) slow.push(rule);
    }
    at += together.length;
  } while (at < rules.length && bytes < PIECE_BYTES && limits.elapsed() - since < limits.slowAfterMs);
  return { emissions, left: [...slow, ...rules.slice(at)] };
}
