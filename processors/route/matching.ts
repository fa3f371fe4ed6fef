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
  MS_PER_FILTER_WORK,
  mismatchOf,
  type OutputRecord,
  organizationOf,
  type Rule,
  type RuleSubject,
} from '@tributary/core';
import type { RecordedEvent } from '../event-record.ts';
import { noteNotTaken, notTakenOnRedrive, type Routed, undecided } from './routed-event.ts';

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
  if (text === MATCH.all || text === MATCH.named || text === MATCH.from || text === MATCH.at) return text;
  throw new InvalidInput('unknown way to match rules');
}

/** Filter work after which matching yields, ms: a filter more and parsing the event stay below 10 ms of the thread. */
const SLICE_MS = 2;

/** Matches in slices; after each but the last one it yields its processor time, as `Matching.filterMs`. */
export type MatchingSteps = Generator<number, Matching>;

/** Matches an event with all enabled rules of its workspace. */
export function matchAll(routed: Routed, dependencies: MatchDependencies): MatchingSteps {
  const enabled = dependencies.state.enabledRules(routed.source.workspace_id);
  return match(routed, enabled, budgetOf(routed.source, dependencies.state), dependencies);
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
  const mayTake = (rule: Rule) => {
    const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
    return (
      mismatchOf({ ...rule, filter: null }, source, new FilterBudget()) === undefined &&
      destinationMismatch(destination, source) === undefined
    );
  };
  if (how === 'all') return state.enabledRules(source.workspace_id).filter(mayTake);
  const later =
    how === 'from' && named.length === 1
      ? laterWithFilter(routed, named, state)
      : how === 'at'
        ? rulesAt(routed, named, state)
        : [];
  const asked = [...named.map((rule) => ({ ...rule, enabled: true })), ...later];
  return asked.filter((rule, at) => (at === 0 && redrives > 0) || mayTake(rule));
}

/**
 * Matches a redriven or replayed event whose named rule had a filter that could not be evaluated. `from`: the later rules
 * with a filter were not evaluated either, so they are matched as well. Later rules without a filter matched before and are
 * left out. `at`: no rule was matched before, so all rules of that time are.
 */
export function matchAgain(
  routed: Routed,
  how: 'named' | 'from' | 'at',
  named: readonly Rule[],
  dependencies: MatchDependencies,
): MatchingSteps {
  // A person requested the named rules: they count as enabled.
  const asked = named.map((rule) => ({ ...rule, enabled: true }));
  const laterOf = { named: () => [], from: laterWithFilter, at: rulesAt }[how];
  const later = laterOf(routed, named, dependencies.state);
  const budget = budgetOf(routed.source, dependencies.state);
  return match(routed, [...asked, ...later], budget, dependencies, new Set(asked));
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

function laterWithFilter({ source }: Routed, named: readonly Rule[], state: CatalogView): readonly Rule[] {
  const enabled = state.enabledRules(source.workspace_id);
  const last = enabled.findIndex(({ id }) => id === named.at(-1)?.id);
  return last === -1 ? [] : enabled.slice(last + 1).filter(({ filter }) => filter != null);
}

/** The other enabled rules with an open destination that existed at the time in the header of the entry. */
function rulesAt({ entry, source }: Routed, named: readonly Rule[], state: CatalogView): readonly Rule[] {
  const at = rulesAtOf(entry);
  return state.enabledRules(source.workspace_id).filter((rule) => {
    const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
    return (
      Date.parse(rule.created_at) <= at &&
      destinationMismatch(destination, source) === undefined &&
      named.every(({ id }) => id !== rule.id)
    );
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
  const known = named === undefined ? leftOutLists.find(candidates, routed.source) : NOT_LEFT_OUT;
  const leftOut: LeftOutRule[] = [];
  let firstNotEvaluated: Undecided | undefined;
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
    if (isLeftOut(because)) {
      if (known === undefined) leftOut.push({ rule: rule.id, destination: rule.destination_id, because });
    }
    if (!isUndecided(mismatch)) {
      if (named?.has(rule) && routed.redrives > 0)
        outputRecords = [...outputRecords, notTakenOnRedrive(routed, rule)];
      if (named?.has(rule) ?? because === 'filter') noteNotTaken(routed, rule, because);
    } else if (!isDue(routedFor(rule, routed, named), rule, state)) noteNotTaken(routed, rule, because);
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
  if (known === undefined) leftOutLists.keep(candidates, routed.source, leftOut);
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

/** Whether the lists of a rule leave an event out, whatever its fields. */
function isLeftOut(because: Mismatch['because']): boolean {
  return because === 'environment' || because === 'event_type' || because === 'event_name';
}

function msOf({ left, compiledCharacters }: FilterBudget): number {
  return (MAX_FILTER_WORK - left) * MS_PER_FILTER_WORK + compiledCharacters * MS_PER_COMPILED_CHARACTER;
}

/** Whether a rule makes a dead delivery: not where its destination is closed, unless a redrive shows it as retrying. */
function isDue({ redrives, source }: Routed, rule: Rule, state: CatalogView): boolean {
  if (redrives > 0) return true;
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  return destinationMismatch(destination, source) === undefined;
}

/** The fields of an event that the lists of rules refer to. */
type KindOfEvent = Omit<RuleSubject, 'event'>;

/** Lists of one workspace's rules; more than so many kinds of events begin anew. */
const MAX_LISTS = 1_000;

/**
 * For each kind of event (environment, type and name), the rules whose lists leave it out. They depend on the rules alone,
 * so they are found once for all events of a kind.
 */
class LeftOutLists {
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

const leftOutLists = new LeftOutLists();
