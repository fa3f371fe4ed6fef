import {
  type FunnelNote,
  type LeftOutRule,
  measureText,
  type OutputRecord,
  type Rule,
  type RuleSubject,
  TOPIC,
} from '@tributary/core';
import type { Routed } from './delivery.ts';

/** A rule as the funnel counts it; of a deleted one only the id is known. */
export type CountedRule = Pick<Rule, 'id' | 'destination_id'>;

/** The result of a rule for an event. */
export interface AppliedRule {
  readonly outputRecords: readonly OutputRecord[];
  /** The counted measures, as `FunnelNote.measures`, without the one that the rule begins with. */
  readonly result: string;
}

/** Why a rule begins with an event: it matched, or a person requested it. */
function beginningOf({ redrives, replay }: Routed): 'matched' | 'replayed' | 'redriven' {
  if (redrives > 0) return 'redriven';
  return replay === undefined ? 'matched' : 'replayed';
}

/** Whether a rule is matched with an event for the first time. */
export function isFirstMatch(routed: Routed): boolean {
  return beginningOf(routed) === 'matched';
}

function noteOf(
  { source: { counted } }: Routed,
  { id, destination_id }: CountedRule,
  measures: string,
): FunnelNote {
  return { event: counted, rule: id, destination: destination_id, measures };
}

/** Notes a rule that was applied, and the deliveries that it made. */
export function noteApplied(routed: Routed, rule: CountedRule, applied: AppliedRule): void {
  const { outputRecords, result } = applied;
  const created = outputRecords.reduce((sum, { topic }) => sum + (topic === TOPIC.deliveries ? 1 : 0), 0);
  const measures = created === 1 ? `${result}+created` : result;
  routed.notes.push(noteOf(routed, rule, `${beginningText(routed)}+${measures}`));
  if (created > 1) routed.notes.push({ ...noteOf(routed, rule, 'created'), count: created });
}

function beginningText(routed: Routed): string {
  const beginning = beginningOf(routed);
  return beginning === 'redriven' ? measureText(beginning, 'rule') : beginning;
}

/**
 * Notes a rule that takes the event not, or no more. The first time it is filtered out; of a redrive or a replay, for which the
 * rule was counted as matched or filtered out before, it is the end. `dead`: the cause of a dead delivery of it.
 */
export function noteNotTaken(routed: Routed, rule: CountedRule, because: string, dead?: string): void {
  const measures = isFirstMatch(routed)
    ? measureText('filtered', because)
    : `${beginningText(routed)}+${dead === undefined ? 'dropped' : measureText('failed', because)}`;
  const all = dead === undefined ? measures : `${measures}+${measureText('dead', dead)}`;
  routed.notes.push(noteOf(routed, rule, all));
}

/** The output records of an event that is done, with which its notes are counted. */
export function counted(
  { context, notes }: Routed,
  outputRecords: readonly OutputRecord[],
): readonly OutputRecord[] {
  for (const note of notes) context.count?.(note);
  return outputRecords;
}

/** The fields of an event that the lists of rules refer to. */
type KindOfEvent = Omit<RuleSubject, 'event'>;

/** Lists of one workspace's rules; more than so many kinds of events begin anew. */
const MAX_LISTS = 1_000;

/**
 * For each kind of event (environment, type and name), the rules whose lists leave it out. They depend on the rules alone,
 * so they are found once for all events of a kind.
 */
export class LeftOutLists {
  readonly #lists = new WeakMap<readonly Rule[], Map<string, readonly LeftOutRule[]>>();

  find(rules: readonly Rule[], event: KindOfEvent): readonly LeftOutRule[] | undefined {
    return this.#lists.get(rules)?.get(textOf(event));
  }

  keep(rules: readonly Rule[], event: KindOfEvent, list: readonly LeftOutRule[]): void {
    const known = this.#lists.get(rules) ?? new Map<string, readonly LeftOutRule[]>();
    if (known.size >= MAX_LISTS) known.clear();
    known.set(textOf(event), list);
    this.#lists.set(rules, known);
  }
}

function textOf({ environment, type, name }: KindOfEvent): string {
  return `${environment} ${type} ${name}`;
}
