import {
  type CanonicalEvent,
  type CatalogView,
  destinationMismatch,
  FilterBudget,
  HEADER,
  InvalidInput,
  isUndecided,
  type LogEntry,
  MATCH,
  MAX_FILTER_WORK,
  type Metrics,
  type Mismatch,
  mismatchOf,
  type OutputRecord,
  type Rule,
} from '@tributary/core';
import { notTakenOnRedrive, type Routed, undecided } from './delivery.ts';

/** Ms of processor time for a unit of the work of filters. */
const MS_PER_WORK = 50e-6;
/** The same for a character of a filter that this process compiles. */
const MS_PER_COMPILED_CHARACTER = 300e-6;

/** The rules that take an event, and what becomes of those whose filter could not say. */
export interface Matching {
  readonly rules: readonly Rule[];
  readonly emissions: readonly OutputRecord[];
  /** Processor time that the filters took by their count, and compiling those that were not kept, ms. */
  readonly filterMs: number;
}

/** Most events have none. */
const NONE: readonly OutputRecord[] = [];

interface Undecided {
  readonly rule: Rule;
  readonly mismatch: Mismatch;
}

interface MatchDependencies {
  readonly state: CatalogView;
  readonly metrics: Metrics;
}

/** How the rules of an entry of the slow queue are to be matched; undefined where they were. */
export function matchOf(entry: LogEntry): keyof typeof MATCH | undefined {
  const text = entry.headers[HEADER.match];
  if (text === undefined) return undefined;
  if (text === MATCH.all || text === MATCH.named || text === MATCH.from) return text;
  throw new InvalidInput('unknown way to match rules');
}

/** Matches an event with all enabled rules of its workspace. */
export function matchAll(routed: Routed, dependencies: MatchDependencies): Matching {
  const enabled = dependencies.state.enabledRules(routed.event.workspace_id);
  return match(routed, enabled, new FilterBudget(), dependencies);
}

/**
 * Matches an event anew that was redriven or is replayed, because the filter of the named rule could not say whether
 * it takes the event. `from`: the later rules with a filter were not evaluated either, so they are matched with it. Later
 * rules without a filter took the event then, and are no part of it.
 */
export function matchAgain(
  routed: Routed,
  how: 'named' | 'from',
  named: readonly Rule[],
  dependencies: MatchDependencies,
): Matching {
  // What was named is asked for by a person: it counts as enabled.
  const asked = named.map((rule) => ({ ...rule, enabled: true }));
  const later = how === 'named' ? [] : laterWithFilter(routed, named, dependencies.state);
  return match(routed, [...asked, ...later], new FilterBudget(), dependencies, new Set(asked));
}

/** Whether a rule that took an event would take it now. A filter that cannot say stops nothing. */
export function stillTakes(rule: Rule, event: CanonicalEvent): boolean {
  const mismatch = mismatchOf(rule, event, new FilterBudget());
  return mismatch === undefined || isUndecided(mismatch);
}

function laterWithFilter({ event }: Routed, named: readonly Rule[], state: CatalogView): readonly Rule[] {
  const enabled = state.enabledRules(event.workspace_id);
  const last = enabled.findIndex(({ id }) => id === named.at(-1)?.id);
  return last === -1 ? [] : enabled.slice(last + 1).filter(({ filter }) => filter != null);
}

/**
 * As `matchRules` does. A filter that fails makes a dead delivery of its rule. Of the rules that were not evaluated the
 * first one has a dead delivery for all of them: an event must not become a thousand. Of rules that are matched again
 * `named` are those that had a dead delivery: the others are no part of a redrive.
 */
function match(
  routed: Routed,
  candidates: readonly Rule[],
  budget: FilterBudget,
  { state, metrics }: MatchDependencies,
  named?: ReadonlySet<Rule>,
): Matching {
  const rules: Rule[] = [];
  let emissions = NONE;
  let firstNotEvaluated: Undecided | undefined;
  let notEvaluated = 0;
  const subjectAt = (rule: Rule) =>
    named === undefined || named.has(rule) ? routed : { ...routed, redrives: 0 };
  for (const rule of candidates) {
    const mismatch = mismatchOf(rule, routed.event, budget);
    if (mismatch === undefined) rules.push(rule);
    else if (!isUndecided(mismatch)) {
      if (named?.has(rule) && routed.redrives > 0)
        emissions = [...emissions, notTakenOnRedrive(routed, rule)];
    } else if (!isDue(subjectAt(rule), rule, state)) continue;
    else if (mismatch.because === 'filter_failed') {
      metrics.count('tributary_rule_filter_failures_total', {});
      emissions = [...emissions, undecided(subjectAt(rule), rule, mismatch)];
    } else {
      firstNotEvaluated ??= { rule, mismatch };
      notEvaluated += 1;
    }
  }
  if (firstNotEvaluated !== undefined) {
    const { rule, mismatch } = firstNotEvaluated;
    metrics.count('tributary_rule_filters_not_evaluated_total', {}, notEvaluated);
    emissions = [...emissions, undecided(subjectAt(rule), rule, mismatch, notEvaluated - 1)];
  }
  return { rules, emissions, filterMs: msOf(budget) };
}

function msOf({ left, compiledCharacters }: FilterBudget): number {
  return (MAX_FILTER_WORK - left) * MS_PER_WORK + compiledCharacters * MS_PER_COMPILED_CHARACTER;
}

/** A rule whose destination is closed makes no deliveries, dead ones neither; one that is redriven is shown as retrying. */
function isDue({ redrives, event }: Routed, rule: Rule, state: CatalogView): boolean {
  if (redrives > 0) return true;
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  return destinationMismatch(destination, event.environment) === undefined;
}
