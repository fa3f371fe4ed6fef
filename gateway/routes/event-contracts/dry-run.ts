import {
  type CanonicalEvent,
  type Contract,
  ContractDryRun,
  contractOfPair,
  type DryRunExample,
  type DryRunResult,
  eventName,
  MAX_EVENTS_A_TASK,
} from '@tributary/core';
import type { Static } from 'typebox';
import { conflict, invalidRequest } from '../../errors/api-error.ts';
import type { Coverage, RecentEventsQuery } from '../../event-search/recent-events.ts';
import { parseInteger, parseTime } from '../../resources/values.ts';
import { lookBack, presentCoverage, type Sight } from './look-back.ts';
import { type changeQuery, type dryRunResult, EVENTS } from './schemas.ts';

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
