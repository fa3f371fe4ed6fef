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

/** True when nothing is to be stored. 400 for what only a dry run heeds. */
export function isDryRun({ dry_run, ...others }: ChangeQuery): boolean {
  if (dry_run === 'true') return true;
  const faults = Object.keys(others).map((path) => ({ path, message: 'goes with dry_run=true' }));
  if (faults.length > 0) throw invalidRequest(...faults);
  return false;
}

/** 409 for a contract that the catalog would refuse: an archived one, or the second of a type and name. */
export async function dryRun(
  contract: Contract,
  query: ChangeQuery,
  { state, recent, contracts, now, disconnected }: Sight,
): Promise<Static<typeof dryRunResult>> {
  if (contract.status === 'archived') throw conflict('missing');
  const takenBy = contractOfPair(state, contract).filter(({ id }) => id !== contract.id);
  if (takenBy.length > 0) throw conflict('taken', takenBy);
  const { since, environment } = query;
  const limit = parseInteger(query.events, EVENTS);
  const asked = {
    since: parseTime('since', since),
    ...(environment === undefined ? {} : { environment }),
    limit,
  };
  const look = lookBack(state, contract, asked, now);
  const run = new ContractDryRun();
  let waiting: CanonicalEvent[] = [];
  const evaluate = async () => {
    const events = waiting;
    waiting = [];
    const verdicts = await contracts.evaluate(contract, events, { gone: disconnected });
    for (const [at, event] of events.entries()) {
      const verdict = verdicts[at];
      if (verdict !== undefined) run.add(event, verdict);
    }
  };
  const coverage = await recent.scan(
    look,
    (event) => {
      waiting.push(event);
      return waiting.length < MAX_EVENTS_A_TASK ? undefined : evaluate();
    },
    disconnected,
  );
  if (waiting.length > 0) await evaluate();
  return presentDryRun(run.result, look, coverage);
}

function presentDryRun(
  { outcomes, breaches, isCut, examples }: DryRunResult,
  look: RecentEventsQuery,
  coverage: Coverage,
): Static<typeof dryRunResult> {
  return {
    dry_run: true,
    events: coverage.events,
    outcomes,
    violations: breaches,
    violations_cut: isCut,
    examples: examples.map(presentExample),
    coverage: presentCoverage(look, coverage),
  };
}

function presentExample({ event, verdict }: DryRunExample) {
  return {
    message_id: event.message_id,
    environment: event.environment,
    event_name: eventName(event),
    received_at: event.received_at,
    outcome: verdict.outcome,
    violations: verdict.breaches,
  };
}

const DEFAULT_REQUIRED_RATIO = 1;
const DEFAULT_ENUM_MAX = 10;

/** The contract that recent events of a workspace suggest, with the figures behind it. Stores nothing. */
export async function infer(
  workspaceId: string,
  body: Static<typeof inferenceBody>,
  { state, recent, now, disconnected }: Sight,
): Promise<Static<typeof inferenceResult>> {
  const pair = { workspace_id: workspaceId, event_type: body.event_type, event_name: body.event_name ?? '' };
  const faults = nameFaults(pair);
  if (faults.length > 0) throw invalidRequest(...faults);
  const asked = {
    since: parseTime('/since', body.since ?? undefined),
    ...(body.environment == null ? {} : { environment: body.environment }),
    limit: body.events ?? EVENTS.fallback,
  };
  const look = lookBack(state, pair, asked, now);
  const inference = new ContractInference(pair.event_type, pair.event_name);
  const coverage = await recent.scan(look, (event) => void inference.add(event), disconnected);
  const { contract, events, fields } = inference.infer({
    requiredRatio: body.required_ratio ?? DEFAULT_REQUIRED_RATIO,
    enumMax: body.enum_max ?? DEFAULT_ENUM_MAX,
  });
  return {
    contract,
    events,
    fields: fields.map((field) => ({ ...field, enum: field.enum === null ? null : [...field.enum] })),
    coverage: presentCoverage(look, coverage),
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** What looks back, and for whom. */
export interface Sight {
  readonly state: CatalogView;
  readonly recent: RecentEvents;
  readonly contracts: Pick<ContractWorkers, 'evaluate'>;
  /** Epoch ms. */
  readonly now: number;
  /** Fires when nobody waits for the answer. */
  readonly disconnected: AbortSignal;
}

/** Which events a contract is for; `id` where it is one already. */
type Pair = Pick<Contract, 'workspace_id' | 'event_type' | 'event_name'> & { readonly id?: string };

/** The recent events that a contract would judge, were it the newest. */
function lookBack(
  state: CatalogView,
  pair: Pair,
  asked: { readonly since?: number | undefined; readonly environment?: Environment; readonly limit: number },
  now: number,
): RecentEventsQuery {
  return {
    workspaceId: pair.workspace_id,
    type: pair.event_type,
    ...(asked.environment === undefined ? {} : { environment: asked.environment }),
    since: asked.since ?? now - DAY_MS,
    limit: asked.limit,
    isWanted: (event) => isJudgedBy(state, pair, event),
  };
}

/** One without a name is for the names that have no contract of their own. */
function isJudgedBy(state: CatalogView, pair: Pair, event: CanonicalEvent): boolean {
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
