import {
  type ComparedEvent,
  type Contract,
  type Environment,
  type History,
  OTHER_NAME,
  organizationOf,
  PlanComparison,
  type VolumeCounters,
} from '@tributary/core';
import type { Static } from 'typebox';
import type { RecentEventsQuery } from '../../../event-search/recent-events.ts';
import { TENANT_TURNS } from '../../../limits/tenant-turns.ts';
import { HOURS, lookBack, parseInteger, parseTime } from '../../../resources/values.ts';
import { EVENTS } from '../contract-resource.ts';
import { presentCoverage, type RecentEventsContext } from '../dry-run.ts';
import { activeContracts } from './import-plan.ts';
import { COMPARED_HOURS, type comparison, type comparisonQuery } from './plan-resource.ts';

/** Contracts whose violations are counted for one comparison: each is a query of the history. */
const MAX_COUNTED_CONTRACTS = 100;
/** Queries of the history at a time. */
const CONCURRENT_QUERIES = 4;
/** Violations read of a contract that takes undeclared fields out of events. */
const VIOLATIONS_READ = 100;

const DAY_MS = 24 * 60 * 60 * 1_000;

interface ComparisonContext extends Pick<RecentEventsContext, 'state' | 'recent' | 'now' | 'disconnected'> {
  readonly counters: Pick<VolumeCounters, 'read'>;
  readonly history: Pick<History, 'list' | 'countByHour'>;
}

/**
 * Compares the contracts of a workspace with what came: counts by name, the fields of recent events, and violations. The
 * work is bounded: one scan of recent events, the counts of a week at most, and violations of `MAX_COUNTED_CONTRACTS`.
 */
export async function comparePlan(
  workspaceId: string,
  query: Static<typeof comparisonQuery>,
  { state, recent, counters, history, now, disconnected }: ComparisonContext,
): Promise<Static<typeof comparison>> {
  const hours = parseInteger(query.hours, { ...COMPARED_HOURS, fallback: HOURS.fallback });
  const range = lookBack(now, hours);
  const inEnvironment = query.environment === undefined ? {} : { environment: query.environment };
  const search: RecentEventsQuery = {
    workspaceId,
    ...inEnvironment,
    since: parseTime('since', query.since) ?? now - DAY_MS,
    limit: parseInteger(query.events, EVENTS),
    isWanted: () => true,
  };
  const compared = new PlanComparison(activeContracts(state, workspaceId), (type, name) =>
    state.contractAt(workspaceId, type, name, Number.MAX_SAFE_INTEGER),
  );
  const rows = await counters.read({ workspaceId, ...range, ...inEnvironment });
  for (const { eventType, eventName, count } of rows)
    if (eventName !== OTHER_NAME) compared.addCount(eventType, eventName, count);
  const coverage = await recent.scan(search, (event) => void compared.addEvent(event), disconnected);
  const counted = compared.seen.slice(0, MAX_COUNTED_CONTRACTS);
  const violations = new Map<string, number>();
  await eachOf(counted, async (contract) => {
    const found = await violationsOf(history, contract, range, query.environment);
    violations.set(contract.id, found.count);
    for (const path of found.undeclared) compared.addUndeclared(contract, path);
  });
  const events = await TENANT_TURNS.runSteps(
    organizationOf(state, workspaceId),
    presented(compared, violations),
    disconnected,
  );
  return {
    events,
    events_cut: compared.isCut || rows.some(({ eventName }) => eventName === OTHER_NAME),
    hours,
    coverage: presentCoverage(search, coverage),
  };
}

/** Violations of a contract in these hours, and the fields that it took out of events. */
async function violationsOf(
  history: ComparisonContext['history'],
  { id, workspace_id: workspaceId, undeclared_fields }: Contract,
  range: { readonly fromHour: number; readonly toHour: number },
  environment: Environment | undefined,
): Promise<{ readonly count: number; readonly undeclared: readonly string[] }> {
  const facets = { contract_id: id, ...(environment === undefined ? {} : { environment }) };
  const counts = await history.countByHour({ kind: 'violation', workspaceId, facets, ...range });
  const count = counts.reduce((sum, hour) => sum + hour.count, 0);
  if (count === 0 || undeclared_fields !== 'omit') return { count, undeclared: [] };
  const page = await history.list({
    kind: 'violation',
    workspaceId,
    facets: { ...facets, kind: 'undeclared' },
    since: range.fromHour,
    limit: VIOLATIONS_READ,
  });
  return { count, undeclared: page.entries.map(({ body }) => String(body.path)) };
}

/** Runs the work on all items, a few at a time. */
async function eachOf<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: CONCURRENT_QUERIES }, worker));
}

function* presented(
  compared: PlanComparison,
  violations: ReadonlyMap<string, number>,
): Generator<undefined, Static<typeof comparison>['events']> {
  const events: Static<typeof comparison>['events'][number][] = [];
  for (const event of compared.result()) {
    events.push(presentCompared(event, violations));
    yield;
  }
  return events;
}

function presentCompared(
  { event_type, event_name, state, contract, accepted, sampled, fields, fieldsCut }: ComparedEvent,
  violations: ReadonlyMap<string, number>,
): Static<typeof comparison>['events'][number] {
  return {
    event_type,
    event_name,
    state,
    contract_id: contract?.id ?? null,
    contract_version: contract?.version ?? null,
    enforcement_mode: contract?.enforcement_mode ?? null,
    undeclared_fields: contract?.undeclared_fields ?? null,
    accepted,
    violations: contract === undefined ? null : (violations.get(contract.id) ?? null),
    sampled,
    fields: fields.map((field) => ({ ...field, types: { ...field.types } })),
    fields_cut: fieldsCut,
  };
}
