import {
  type CatalogView,
  destinationMismatch,
  FilterBudget,
  HEADER,
  InvalidInput,
  isUndecided,
  type LeftOutRule,
  type LogEntry,
  MATCH,
  MAX_FILTER_WORK,
  type Metrics,
  type Mismatch,
  mismatchOfSubject,
  type OutputRecord,
  type Rule,
  type StageNote,
} from '@tributary/core';
import type { RecordedEvent } from '../event-record.ts';
import { notTakenOnRedrive, type Routed, undecided } from './delivery.ts';
import { LeftOutLists, notTakenNote } from './route-notes.ts';

/** Processor time of a unit of filter work, ms. */
const MS_PER_WORK = 50e-6;
/** Processor time of compiling a character of a filter, ms. */
const MS_PER_COMPILED_CHARACTER = 300e-6;

/** The rules that match an event, and the records of rules whose filter could not be evaluated. */
export interface Matching {
  readonly rules: readonly Rule[];
  readonly outputRecords: readonly OutputRecord[];
  /** The funnel notes of the rules that do not match. */
  readonly notes: readonly StageNote[];
  /** Processor time of the filters by their counted work, and of compiling filters that were not cached, ms. */
  readonly filterMs: number;
}

/** Shared, as most events have none. */
const NONE: readonly OutputRecord[] = [];

interface Undecided {
  readonly rule: Rule;
  readonly mismatch: Mismatch;
}

interface MatchDependencies {
  readonly state: CatalogView;
  readonly metrics: Metrics;
}

/** How the rules of an entry of the slow queue are matched; undefined where they were matched before. */
export function matchOf(entry: LogEntry): keyof typeof MATCH | undefined {
  const text = entry.headers[HEADER.match];
  if (text === undefined) return undefined;
  if (text === MATCH.all || text === MATCH.named || text === MATCH.from) return text;
  throw new InvalidInput('unknown way to match rules');
}

/** Matches an event with all enabled rules of its workspace. */
export function matchAll(routed: Routed, dependencies: MatchDependencies): Matching {
  const enabled = dependencies.state.enabledRules(routed.source.workspace_id);
  return match(routed, enabled, new FilterBudget(), dependencies);
}

/**
 * Matches a redriven or replayed event whose named rule had a filter that could not be evaluated. `from`: the later rules
 * with a filter were not evaluated either, so they are matched as well. Later rules without a filter matched before and are
 * left out.
 */
export function matchAgain(
  routed: Routed,
  how: 'named' | 'from',
  named: readonly Rule[],
  dependencies: MatchDependencies,
): Matching {
  // A person requested the named rules: they count as enabled.
  const asked = named.map((rule) => ({ ...rule, enabled: true }));
  const later = how === 'named' ? [] : laterWithFilter(routed, named, dependencies.state);
  return match(routed, [...asked, ...later], new FilterBudget(), dependencies, new Set(asked));
}

/** Whether a rule that matched an event matches it now. A filter that cannot be evaluated counts as a match. */
export function stillTakes(rule: Rule, source: RecordedEvent): boolean {
  const mismatch = mismatchOfSubject(rule, source, new FilterBudget());
  return mismatch === undefined || isUndecided(mismatch);
}

function laterWithFilter({ source }: Routed, named: readonly Rule[], state: CatalogView): readonly Rule[] {
  const enabled = state.enabledRules(source.workspace_id);
  const last = enabled.findIndex(({ id }) => id === named.at(-1)?.id);
  return last === -1 ? [] : enabled.slice(last + 1).filter(({ filter }) => filter != null);
}

/**
 * Matches as `matchRules`. A filter that fails makes a dead delivery of its rule. Of the rules that were not evaluated, the
 * first one has a dead delivery on behalf of all, so that an event does not become a thousand. When rules are matched again,
 * `named` are those that had a dead delivery: the others are not part of a redrive.
 */
function match(
  routed: Routed,
  candidates: readonly Rule[],
  budget: FilterBudget,
  { state, metrics }: MatchDependencies,
  named?: ReadonlySet<Rule>,
): Matching {
  const rules: Rule[] = [];
  let outputRecords = NONE;
  const notes: StageNote[] = [];
  const known = named === undefined ? leftOutLists.find(candidates, routed.source) : NOT_LEFT_OUT;
  const leftOut: LeftOutRule[] = [];
  let firstNotEvaluated: Undecided | undefined;
  let notEvaluated = 0;
  const subjectAt = (rule: Rule) =>
    named === undefined || named.has(rule) ? routed : { ...routed, redrives: 0 };
  for (const rule of candidates) {
    const mismatch = mismatchOfSubject(rule, routed.source, budget);
    if (mismatch === undefined) {
      rules.push(rule);
      continue;
    }
    const { because } = mismatch;
    if (isLeftOut(because)) {
      if (known === undefined) leftOut.push({ rule: rule.id, destination: rule.destination_id, because });
    }
    if (!isUndecided(mismatch)) {
      if (named?.has(rule) && routed.redrives > 0)
        outputRecords = [...outputRecords, notTakenOnRedrive(routed, rule)];
      if (named?.has(rule) ?? because === 'filter') notes.push(notTakenNote(routed, rule, because));
    } else if (!isDue(subjectAt(rule), rule, state)) notes.push(notTakenNote(routed, rule, because));
    else if (because === 'filter_failed') {
      metrics.count('tributary_rule_filter_failures_total', {});
      outputRecords = [...outputRecords, undecided(subjectAt(rule), rule, mismatch)];
      notes.push(notTakenNote(routed, rule, because, because));
    } else {
      if (firstNotEvaluated === undefined) firstNotEvaluated = { rule, mismatch };
      else notes.push(notTakenNote(routed, rule, because));
      notEvaluated += 1;
    }
  }
  const list = known ?? leftOut;
  if (known === undefined) leftOutLists.keep(candidates, routed.source, leftOut);
  if (list.length > 0) notes.push({ event: routed.source.counted, leftOut: list });
  if (firstNotEvaluated !== undefined) {
    const { rule, mismatch } = firstNotEvaluated;
    notes.push(notTakenNote(routed, rule, mismatch.because, mismatch.because));
    metrics.count('tributary_rule_filters_not_evaluated_total', {}, notEvaluated);
    outputRecords = [...outputRecords, undecided(subjectAt(rule), rule, mismatch, notEvaluated - 1)];
  }
  return { rules, outputRecords, notes, filterMs: msOf(budget) };
}

const leftOutLists = new LeftOutLists();
const NOT_LEFT_OUT: readonly LeftOutRule[] = [];

/** Whether the lists of a rule leave an event out, whatever its fields. */
function isLeftOut(because: Mismatch['because']): boolean {
  return because === 'environment' || because === 'event_type' || because === 'event_name';
}

function msOf({ left, compiledCharacters }: FilterBudget): number {
  return (MAX_FILTER_WORK - left) * MS_PER_WORK + compiledCharacters * MS_PER_COMPILED_CHARACTER;
}

/** Whether a rule makes a dead delivery: not where its destination is closed, unless a redrive shows it as retrying. */
function isDue({ redrives, source }: Routed, rule: Rule, state: CatalogView): boolean {
  if (redrives > 0) return true;
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  return destinationMismatch(destination, source.environment) === undefined;
}
