import {
  type CatalogView,
  destinationMismatch,
  FilterBudget,
  HEADER,
  InvalidInput,
  isLeftOut,
  isUndecided,
  type LeftOutRule,
  type LogEntry,
  MATCH,
  MAX_FILTER_WORK,
  type Metrics,
  MS_PER_FILTER_WORK,
  mismatchOf,
  type OutputRecord,
  organizationOf,
  type Rule,
  type RuleMismatch,
  type RuleSubject,
} from '@tributary/core';
import type { RecordedEvent } from '../event-record.ts';
import { completedOnRedrive, noteNotTaken, type Routed, undecided } from './routed-event.ts';

/** Processor time of compiling a character of a filter, ms. */
const MS_PER_COMPILED_CHARACTER = 300e-6;

/** The rules that match an event, and the records of rules whose filter could not be evaluated. The others are noted. */
export interface Matching {
  readonly rules: readonly Rule[];
  readonly outputRecords: readonly OutputRecord[];
  /**
   * Processor time of the filters in the last slice by their counted work, and of compiling filters that were not cached, ms.
   */
  readonly filterMs: number;
}

/** Shared, as most events have none. */
const NONE: readonly OutputRecord[] = [];

interface MatchDependencies {
  readonly state: CatalogView;
  readonly metrics: Metrics;
}

/** How the rules of an entry of the slow queue are matched; undefined where they were matched before. */
export function matchOf(entry: LogEntry): keyof typeof MATCH | undefined {
  const text = entry.headers[HEADER.match];
  if (text === undefined) return undefined;
  if (text === MATCH.all || text === MATCH.named || text === MATCH.from || text === MATCH.at) return text;
  throw new InvalidInput('unknown way to match rules');
}

/** Filter work after which matching yields, ms: a filter more and parsing the event stay below 10 ms of the thread. */
const SLICE_MS = 2;

/** Matches in slices; after each but the last one it yields its processor time, as `Matching.filterMs`. */
export type MatchingSteps = Generator<number, Matching>;

/**
 * Matches the rules that an event waits for. Of those of a redrive or a replay, `named` may have a dead delivery: an undecided
 * filter of another one is no part of the redrive.
 */
export function matchRules(
  routed: Routed,
  how: keyof typeof MATCH,
  named: readonly Rule[],
  dependencies: MatchDependencies,
): MatchingSteps {
  const { state } = dependencies;
  const asked = how === 'all' ? undefined : asEnabled(named);
  const later = otherRules(routed, how, named, state);
  const candidates = asked === undefined ? later : [...asked, ...later];
  return match(routed, candidates, budgetOf(routed.source, state), dependencies, asked && new Set(asked));
}

/**
 * The rules that an event waits for, without their filters: for an event of a workspace that is over a budget. `named`: those
 * of an entry of the slow queue, the first of which has a dead delivery if the event is redriven.
 */
export function rulesInQuestion(
  routed: Routed,
  how: keyof typeof MATCH | undefined,
  named: readonly Rule[],
  state: CatalogView,
): readonly Rule[] {
  const { source, redrives } = routed;
  const mayTake = (rule: Rule) =>
    mismatchOf({ ...rule, filter: null }, source, new FilterBudget()) === undefined &&
    isOpen(rule, source, state);
  const rules = [...asEnabled(named), ...otherRules(routed, how, named, state)];
  return rules.filter((rule, at) => (how !== 'all' && at === 0 && redrives > 0) || mayTake(rule));
}

/** A person requested the named rules: they count as enabled. */
function asEnabled(named: readonly Rule[]): readonly Rule[] {
  return named.map((rule) => ({ ...rule, enabled: true }));
}

/**
 * The rules that an event waits for beside the named ones.
 *
 * - `from`: the later rules with a filter, which was not evaluated either. Those without a filter matched before.
 * - `at`: all that existed at the time in the header of the entry and have an open destination, as none was matched before.
 */
function otherRules(
  { entry, source }: Routed,
  how: keyof typeof MATCH | undefined,
  named: readonly Rule[],
  state: CatalogView,
): readonly Rule[] {
  if (how === undefined || how === 'named') return [];
  const enabled = state.enabledRules(source.workspace_id);
  if (how === 'all') return enabled;
  if (how === 'from') {
    const last = enabled.findIndex(({ id }) => id === named.at(-1)?.id);
    return last === -1 ? [] : enabled.slice(last + 1).filter(({ filter }) => filter != null);
  }
  const at = rulesAtOf(entry);
  return enabled.filter(
    (rule) =>
      Date.parse(rule.created_at) <= at &&
      isOpen(rule, source, state) &&
      named.every(({ id }) => id !== rule.id),
  );
}

function isOpen(rule: Rule, source: RecordedEvent, state: CatalogView): boolean {
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  return destinationMismatch(destination, source) === undefined;
}

/**
 * Of the rules that matched an event, those that match it now. A filter that cannot be evaluated counts as a match; one
 * budget is for all of them, as when they matched.
 */
export function stillTaking(
  rules: readonly Rule[],
  source: RecordedEvent,
  state: Pick<CatalogView, 'workspace'>,
): readonly Rule[] {
  const budget = budgetOf(source, state);
  return rules.filter((rule) => {
    const mismatch = mismatchOf(rule, source, budget);
    return mismatch === undefined || isUndecided(mismatch);
  });
}

export function rulesAtOf({ headers }: LogEntry): number {
  const at = Number(headers[HEADER.rulesAt]);
  if (!Number.isSafeInteger(at)) throw new InvalidInput(`bad number in ${HEADER.rulesAt}`);
  return at;
}

/**
 * Matches rules in order. A filter that fails makes a dead delivery of its rule. Of the rules that were not evaluated, the
 * first one has a dead delivery on behalf of all, so that an event does not become a thousand. When rules are matched again,
 * `named` are those that had a dead delivery: the others are not part of a redrive.
 */
function* match(
  routed: Routed,
  candidates: readonly Rule[],
  budget: FilterBudget,
  { state, metrics }: MatchDependencies,
  named?: ReadonlySet<Rule>,
): MatchingSteps {
  const rules: Rule[] = [];
  let outputRecords = NONE;
  const kind = kindOf(routed.source);
  const known = named === undefined ? leftOutLists.get(candidates)?.get(kind) : NOT_LEFT_OUT;
  const leftOut: LeftOutRule[] = [];
  let firstNotEvaluated: { readonly rule: Rule; readonly mismatch: RuleMismatch } | undefined;
  let notEvaluated = 0;
  let yieldedMs = 0;
  for (const rule of candidates) {
    const sliceMs = msOf(budget) - yieldedMs;
    if (sliceMs >= SLICE_MS) {
      yieldedMs += sliceMs;
      yield sliceMs;
    }
    const mismatch = mismatchOf(rule, routed.source, budget);
    if (mismatch === undefined) {
      rules.push(rule);
      continue;
    }
    const { because } = mismatch;
    if (known === undefined && isLeftOut(mismatch))
      leftOut.push({ rule: rule.id, destination: rule.destination_id, because });
    if (!isUndecided(mismatch)) {
      if (named?.has(rule) && routed.redrives > 0)
        outputRecords = [
          ...outputRecords,
          completedOnRedrive(routed, rule, 'its rule does not take the event'),
        ];
      if (named?.has(rule) ?? !isLeftOut(mismatch)) noteNotTaken(routed, rule, because);
    } else if (routedFor(rule, routed, named).redrives === 0 && !isOpen(rule, routed.source, state))
      // A redrive shows it as retrying, also where its destination is closed.
      noteNotTaken(routed, rule, because);
    else if (because === 'filter_failed') {
      metrics.count('tributary_rule_filter_failures_total', {});
      outputRecords = [...outputRecords, undecided(routedFor(rule, routed, named), rule, mismatch)];
      noteNotTaken(routed, rule, because, because);
    } else {
      if (firstNotEvaluated === undefined) firstNotEvaluated = { rule, mismatch };
      else noteNotTaken(routed, rule, because);
      notEvaluated += 1;
    }
  }
  const list = known ?? leftOut;
  if (known === undefined) keepLeftOut(candidates, kind, leftOut);
  if (list.length > 0) routed.notes.push({ event: routed.source.counted, leftOut: list });
  if (firstNotEvaluated !== undefined) {
    const { rule, mismatch } = firstNotEvaluated;
    noteNotTaken(routed, rule, mismatch.because, mismatch.because);
    metrics.count('tributary_rule_filters_not_evaluated_total', {}, notEvaluated);
    outputRecords = [
      ...outputRecords,
      undecided(routedFor(rule, routed, named), rule, mismatch, notEvaluated - 1),
    ];
  }
  return { rules, outputRecords, filterMs: msOf(budget) - yieldedMs };
}

function budgetOf({ workspace_id }: RecordedEvent, state: Pick<CatalogView, 'workspace'>): FilterBudget {
  return new FilterBudget(organizationOf(state, workspace_id));
}

/** Only the named rules are part of a redrive. */
function routedFor(rule: Rule, routed: Routed, named: ReadonlySet<Rule> | undefined): Routed {
  return named === undefined || named.has(rule) ? routed : { ...routed, redrives: 0 };
}

const NOT_LEFT_OUT: readonly LeftOutRule[] = [];

function msOf({ left, compiledCharacters }: FilterBudget): number {
  return (MAX_FILTER_WORK - left) * MS_PER_FILTER_WORK + compiledCharacters * MS_PER_COMPILED_CHARACTER;
}

/** Kinds of events whose lists are kept of one workspace's rules; one more begins anew. */
const MAX_LISTS = 1_000;

/**
 * For the rules of a workspace, by kind of event (environment, type and name): the rules whose lists leave it out. They depend
 * on the rules alone, so they are found once for all events of a kind.
 */
const leftOutLists = new WeakMap<readonly Rule[], Map<string, readonly LeftOutRule[]>>();

function kindOf({ environment, type, name }: Omit<RuleSubject, 'event'>): string {
  return `${environment} ${type} ${name}`;
}

function keepLeftOut(rules: readonly Rule[], kind: string, list: readonly LeftOutRule[]): void {
  const known = leftOutLists.get(rules) ?? new Map<string, readonly LeftOutRule[]>();
  if (known.size >= MAX_LISTS) known.clear();
  known.set(kind, list);
  leftOutLists.set(rules, known);
}
