import {
  type CatalogView,
  closedTo,
  type Emission,
  FilterBudget,
  HEADER,
  InvalidInput,
  isUndecided,
  type LogEntry,
  MATCH,
  MAX_FILTER_WORK,
  type Metrics,
  matchRules,
  type Rule,
  type RuleMatch,
} from '@tributary/core';
import { notTakenOnRedrive, type Routed, undecided } from './delivery.ts';

/** Ms of processor time for a unit of the work of filters. */
const MS_PER_WORK = 50e-6;
/** The same for a character of a filter that this process compiles. */
const MS_PER_COMPILED_CHARACTER = 300e-6;

/** The rules that take an event, and what becomes of those whose filter could not say. */
export interface Matching {
  readonly rules: readonly Rule[];
  readonly emissions: readonly Emission[];
  /** Processor time that the filters took by their count, and compiling those that were not kept, ms. */
  readonly filterMs: number;
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
export function matchAll(routed: Routed, { state, metrics }: MatchDependencies): Matching {
  const budget = new FilterBudget();
  const enabled = state.enabledRules(routed.event.workspace_id);
  return matchingOf(routed, matchRules(enabled, routed.event, budget), budget, { state, metrics });
}

/**
 * Matches an event anew that was redriven or is replayed, because the filter of the named rule could not say whether
 * it takes the event. `from`: the later rules were not evaluated either, so they are matched with it.
 */
export function matchAgain(
  routed: Routed,
  match: 'named' | 'from',
  named: readonly Rule[],
  dependencies: MatchDependencies,
): Matching {
  const budget = new FilterBudget();
  // What was named is asked for by a person: it counts as enabled.
  const matches = matchRules(
    named.map((rule) => ({ ...rule, enabled: true })),
    routed.event,
    budget,
  );
  const own = matchingOf(routed, matches, budget, dependencies);
  const emissions = [...own.emissions];
  if (routed.redrives > 0)
    for (const { rule, mismatch } of matches)
      if (mismatch !== undefined && !isUndecided(mismatch)) emissions.push(notTakenOnRedrive(routed, rule));
  if (match === 'named') return { ...own, emissions };
  const enabled = dependencies.state.enabledRules(routed.event.workspace_id);
  const last = enabled.findIndex(({ id }) => id === named.at(-1)?.id);
  const later = last === -1 ? [] : enabled.slice(last + 1);
  // Their events were never dead: they are no part of the redrive.
  const rest = matchingOf(
    { ...routed, redrives: 0 },
    matchRules(later, routed.event, budget),
    budget,
    dependencies,
  );
  return {
    rules: [...own.rules, ...rest.rules],
    emissions: [...emissions, ...rest.emissions],
    filterMs: rest.filterMs,
  };
}

/**
 * A filter that fails makes a dead delivery of its rule. Of the rules that were not evaluated the first one has a dead
 * delivery for all of them: an event must not become a thousand.
 */
function matchingOf(
  routed: Routed,
  matches: readonly RuleMatch[],
  budget: FilterBudget,
  { state, metrics }: MatchDependencies,
): Matching {
  const rules: Rule[] = [];
  const failed: (RuleMatch & { readonly mismatch: NonNullable<RuleMatch['mismatch']> })[] = [];
  const notEvaluated: typeof failed = [];
  for (const { rule, mismatch } of matches) {
    if (mismatch === undefined) rules.push(rule);
    else if (!isUndecided(mismatch) || !isDue(routed, rule, state)) continue;
    else if (mismatch.because === 'filter_failed') failed.push({ rule, mismatch });
    else notEvaluated.push({ rule, mismatch });
  }
  const emissions = failed.map(({ rule, mismatch }) => undecided(routed, rule, mismatch));
  const [first, ...others] = notEvaluated;
  if (first !== undefined) emissions.push(undecided(routed, first.rule, first.mismatch, others.length));
  if (failed.length > 0) metrics.count('tributary_rule_filters_failed_total', {}, failed.length);
  if (first !== undefined)
    metrics.count('tributary_rule_filters_not_evaluated_total', {}, notEvaluated.length);
  return { rules, emissions, filterMs: msOf(budget) };
}

function msOf({ left, compiledCharacters }: FilterBudget): number {
  return (MAX_FILTER_WORK - left) * MS_PER_WORK + compiledCharacters * MS_PER_COMPILED_CHARACTER;
}

/** A rule whose destination is closed makes no deliveries, dead ones neither; one that is redriven is shown as retrying. */
function isDue({ redrives, event }: Routed, rule: Rule, state: CatalogView): boolean {
  if (redrives > 0) return true;
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  return closedTo(destination, event.environment) === undefined;
}
