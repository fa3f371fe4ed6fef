import {
  type CanonicalEvent,
  type CatalogView,
  type Contract,
  ContractDryRun,
  ContractInference,
  type ContractWorkers,
  contractOfPair,
  type DryRunExample,
  type DryRunResult,
  type Environment,
  eventName,
  iso,
  MAX_EVENTS_A_TASK,
} from '@tributary/core';
import type { Static } from 'typebox';
import { conflict, invalidRequest } from '../../errors/api-error.ts';
import type { Coverage, RecentEvents, RecentEventsQuery } from '../../event-search/recent-events.ts';
import { parseInteger, parseTime } from '../../resources/values.ts';
import { nameFaults } from './contract-fields.ts';
import {
  type changeQuery,
  type dryRunResult,
  EVENTS,
  type inferenceBody,
  type inferenceResult,
} from './contract-resource.ts';

type ChangeQuery = Static<typeof changeQuery>;

/** Whether nothing is to be stored. 400 for parameters that require a dry run. */
export function isDryRun({ dry_run, ...others }: ChangeQuery): boolean {
  if (dry_run === 'true') return true;
  const faults = Object.keys(others).map((path) => ({ path, message: 'requires dry_run=true' }));
  if (faults.length > 0) throw invalidRequest(...faults);
  return false;
}

/** Evaluates a contract on recent events. 409 for an archived contract, and for the second one of a type and name. */
export async function dryRun(
  contract: Contract,
  query: ChangeQuery,
  { state, recent, contracts, now, disconnected }: RecentEventsContext,
): Promise<Static<typeof dryRunResult>> {
  if (contract.status === 'archived') throw conflict('missing');
  const takenBy = contractOfPair(state, contract).filter(({ id }) => id !== contract.id);
  if (takenBy.length > 0) throw conflict('taken', takenBy);
  const { since, environment } = query;
  const limit = parseInteger(query.events, EVENTS);
  const requested = {
    since: parseTime('since', since),
    ...(environment === undefined ? {} : { environment }),
    limit,
  };
  const search = queryOf(state, contract, requested, now);
  const run = new ContractDryRun();
  let pending: CanonicalEvent[] = [];
  const evaluate = async () => {
    const events = pending;
    pending = [];
    const verdicts = await contracts.evaluate(contract, events, { disconnected });
    for (const [at, event] of events.entries()) {
      const verdict = verdicts[at];
      if (verdict !== undefined) run.add(event, verdict);
    }
  };
  const coverage = await recent.scan(
    search,
    (event) => {
      pending.push(event);
      return pending.length < MAX_EVENTS_A_TASK ? undefined : evaluate();
    },
    disconnected,
  );
  if (pending.length > 0) await evaluate();
  return presentDryRun(run.result, search, coverage);
}

function presentDryRun(
  { outcomes, violations, isCut, examples }: DryRunResult,
  search: RecentEventsQuery,
  coverage: Coverage,
): Static<typeof dryRunResult> {
  return {
    dry_run: true,
    events: coverage.events,
    outcomes,
    violations,
    violations_cut: isCut,
    examples: examples.map(presentExample),
    coverage: presentCoverage(search, coverage),
  };
}

function presentExample({ event, verdict }: DryRunExample) {
  return {
    message_id: event.message_id,
    environment: event.environment,
    event_name: eventName(event),
    received_at: event.received_at,
    outcome: verdict.outcome,
    violations: verdict.violations,
  };
}

const DEFAULT_REQUIRED_RATIO = 1;
const DEFAULT_ENUM_MAX = 10;

/** Infers a contract from recent events, with the statistics of their fields. Stores nothing. */
export async function infer(
  workspaceId: string,
  body: Static<typeof inferenceBody>,
  { state, recent, now, disconnected }: RecentEventsContext,
): Promise<Static<typeof inferenceResult>> {
  const pair = { workspace_id: workspaceId, event_type: body.event_type, event_name: body.event_name ?? '' };
  const faults = nameFaults(pair);
  if (faults.length > 0) throw invalidRequest(...faults);
  const requested = {
    since: parseTime('/since', body.since ?? undefined),
    ...(body.environment == null ? {} : { environment: body.environment }),
    limit: body.events ?? EVENTS.fallback,
  };
  const search = queryOf(state, pair, requested, now);
  const inference = new ContractInference(pair.event_type, pair.event_name);
  const coverage = await recent.scan(search, (event) => void inference.add(event), disconnected);
  const { contract, events, fields } = inference.infer({
    requiredRatio: body.required_ratio ?? DEFAULT_REQUIRED_RATIO,
    enumMax: body.enum_max ?? DEFAULT_ENUM_MAX,
  });
  return {
    contract,
    events,
    fields: fields.map((field) => ({ ...field, enum: field.enum === null ? null : [...field.enum] })),
    coverage: presentCoverage(search, coverage),
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** The state and ports that a run on recent events needs. */
export interface RecentEventsContext {
  readonly state: CatalogView;
  readonly recent: RecentEvents;
  readonly contracts: Pick<ContractWorkers, 'evaluate'>;
  /** Epoch ms. */
  readonly now: number;
  readonly disconnected: AbortSignal;
}

/** The events that a contract applies to; `id` of an existing contract. */
type Pair = Pick<Contract, 'workspace_id' | 'event_type' | 'event_name'> & { readonly id?: string };

/** The query for the recent events that a contract would apply to if it were the newest. */
function queryOf(
  state: CatalogView,
  pair: Pair,
  requested: {
    readonly since?: number | undefined;
    readonly environment?: Environment;
    readonly limit: number;
  },
  now: number,
): RecentEventsQuery {
  return {
    workspaceId: pair.workspace_id,
    type: pair.event_type,
    ...(requested.environment === undefined ? {} : { environment: requested.environment }),
    since: requested.since ?? now - DAY_MS,
    limit: requested.limit,
    isWanted: (event) => appliesTo(state, pair, event),
  };
}

/** A contract without a name applies to all names without a contract of their own. */
function appliesTo(state: CatalogView, pair: Pair, event: CanonicalEvent): boolean {
  const name = eventName(event);
  if (pair.event_name !== '') return name === pair.event_name;
  const own = state.contractAt(pair.workspace_id, pair.event_type, name, Number.MAX_SAFE_INTEGER);
  return own === undefined || own.event_name === '' || own.id === pair.id;
}

export function presentCoverage({ since }: RecentEventsQuery, coverage: Coverage) {
  const { oldest, newest, omitted, records, bytes, stoppedBy } = coverage;
  return {
    since: iso(since),
    oldest,
    newest,
    omitted,
    records,
    bytes,
    complete: stoppedBy === null,
    stopped_by: stoppedBy,
  };
}
