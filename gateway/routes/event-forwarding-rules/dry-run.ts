import {
  type CanonicalEvent,
  evaluateFilter,
  eventName,
  FilterBudget,
  type FilterResult,
  MAX_FILTER_WORK,
} from '@tributary/core';
import type { Static } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import type { RecentEvents } from '../../event-search/recent-events.ts';
import { parseTime } from '../../resources/values.ts';
import { EVENTS } from '../event-contracts/contract-resource.ts';
import { presentCoverage } from '../event-contracts/dry-run.ts';
import { type ruleDryRunBody, type ruleDryRunResult, selectionFaults } from './rule-resource.ts';

type Result = Static<typeof ruleDryRunResult>;
type Verdict = Result['examples'][number]['verdict'];

const DAY_MS = 24 * 60 * 60 * 1000;
/** The work of one dry run: 40 events with the most expensive filter, 200 ms in all, or 20,000 ordinary evaluations. */
const MAX_WORK = 40 * MAX_FILTER_WORK;
const EXAMPLES_EACH = 5;
const MAX_FAILURES = 20;

interface DryRunContext {
  readonly workspaceId: string;
  readonly recent: RecentEvents;
  /** Epoch ms. */
  readonly now: number;
  readonly disconnected: AbortSignal;
}

/** Evaluates a filter on recent accepted events of its types, names and environments. */
export async function dryRunOfFilter(
  body: Static<typeof ruleDryRunBody>,
  { workspaceId, recent, now, disconnected }: DryRunContext,
): Promise<Result> {
  const { filter = null, event_types, event_names, environments } = body;
  const faults = selectionFaults({ filter, event_names: event_names ?? [] });
  if (faults.length > 0) throw invalidRequest(...faults);
  const [types, names] = [event_types ?? [], event_names ?? []];
  const wantedEnvironments = environments ?? ['production'];
  const query = {
    workspaceId,
    outcome: 'accepted' as const,
    since: parseTime('/since', body.since ?? undefined) ?? now - DAY_MS,
    limit: body.events ?? EVENTS.fallback,
    isWanted: (event: CanonicalEvent) =>
      wantedEnvironments.includes(event.environment) &&
      (types.length === 0 || types.includes(event.type)) &&
      (names.length === 0 || names.includes(eventName(event))),
  };
  const run = new FilterDryRun();
  const evaluate = budgetedVerdicts(filter);
  const coverage = await recent.scan(query, (event) => void run.add(event, evaluate(event)), disconnected);
  return { ...run.result, coverage: presentCoverage(query, coverage) };
}

/** Evaluates until the work of the dry run is used up. Each event has the same budget as in route. */
function budgetedVerdicts(filter: string | null): (event: CanonicalEvent) => FilterResult {
  let left = MAX_WORK;
  return (event) => {
    if (filter === null) return 'matched';
    if (left <= 0) return 'not evaluated';
    const budget = new FilterBudget();
    const verdict = evaluateFilter(filter, event, budget);
    left -= MAX_FILTER_WORK - Math.max(0, budget.left);
    return verdict;
  };
}

/** Counts and examples of a dry run. */
class FilterDryRun {
  readonly #counts: Record<Verdict, number> = { matched: 0, 'not matched': 0, failed: 0, 'not evaluated': 0 };
  readonly #failures = new Map<string, number>();
  readonly #examples: Result['examples'][number][] = [];

  add(event: CanonicalEvent, answer: FilterResult): void {
    const verdict = typeof answer === 'string' ? answer : 'failed';
    const message = typeof answer === 'string' ? null : answer.failed;
    this.#counts[verdict]++;
    if (message !== null && (this.#failures.has(message) || this.#failures.size < MAX_FAILURES))
      this.#failures.set(message, (this.#failures.get(message) ?? 0) + 1);
    if (this.#counts[verdict] > EXAMPLES_EACH) return;
    const { message_id, type, environment, received_at } = event;
    const shown = { message_id, event_type: type, event_name: eventName(event), environment, received_at };
    this.#examples.push({ ...shown, verdict, message });
  }

  get result(): Omit<Result, 'coverage'> {
    const { matched, failed, ...others } = this.#counts;
    const [not_matched, not_evaluated] = [others['not matched'], others['not evaluated']];
    const events = matched + failed + not_matched + not_evaluated;
    const failures = [...this.#failures]
      .map(([message, count]) => ({ message, events: count }))
      .sort((a, b) => b.events - a.events);
    return { events, matched, not_matched, failed, not_evaluated, failures, examples: this.#examples };
  }
}
