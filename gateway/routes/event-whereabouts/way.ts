import {
  type CanonicalEvent,
  type Deduplicator,
  type EventLog,
  HEADER,
  type History,
  type LogEntry,
  type Placed,
  type Whereabouts,
} from '@tributary/core';
import type { ContractDependencies } from '../events/verdict.ts';
import { contractWay, findAccepted, findPoisoned, isValidated, waitsForSlowValidation } from './accepted.ts';
import { givenUpBy, withoutGivenUp } from './given-up.ts';
import type { Look } from './look.ts';
import { findReceived, findReevaluated, type ReceivedEvent, type Wanted } from './received.ts';
import { rulesWay } from './rules.ts';

/** What a look reads. It writes nothing, and the event path writes nothing for it. */
export interface WaySources extends ContractDependencies {
  readonly log: EventLog;
  readonly deduplicator: Pick<Deduplicator, 'winner'>;
  readonly reevaluations: Pick<Deduplicator, 'winner'>;
  readonly history: Pick<History, 'get'>;
  readonly dedicatedTopics: readonly string[];
}

type Way = Omit<Whereabouts, 'looked'>;

/**
 * The way of an event, each part read where it happened; undefined where the event was not found. `Unavailable` when the
 * log does not answer, or this process's catalog is behind the event's.
 */
export async function wayOf(
  look: Look,
  sources: WaySources,
  wanted: Wanted,
): Promise<Whereabouts | undefined> {
  const received = await findReceived(look, sources, wanted);
  if (received === undefined) return undefined;
  const way = await wayOfReceived(look, sources, received);
  return { ...way, looked: look.looked() };
}

async function wayOfReceived(look: Look, sources: WaySources, received: ReceivedEvent): Promise<Way> {
  const { log } = sources;
  const { entry, event } = received;
  const keyId = entry.headers[HEADER.keyId];
  const known = {
    event,
    received: placeOf(entry),
    ...(keyId === undefined ? {} : { key_id: keyId }),
    rules: [],
  };
  if (!(await isValidated(log, entry))) return { ...known, stage: 'validate' };
  if (await waitsForSlowValidation(look, log, received)) return { ...known, stage: 'validate.slow' };
  const contract = await contractWay(sources, received);
  if (contract.outcome === 'rejected') {
    const again = await findReevaluated(look, sources, received);
    return again === undefined
      ? { ...known, contract }
      : wayOfReevaluated(look, sources, again, { ...known, contract });
  }
  return wayOfPassed(look, sources, received, { ...known, contract });
}

/** Of a rejected event that a replay had evaluated once more: it goes on from there. */
async function wayOfReevaluated(
  look: Look,
  sources: WaySources,
  again: ReceivedEvent,
  known: Passed,
): Promise<Way> {
  const { entry, event } = again;
  const { violations: _none, ...verdict } = await contractWay(sources, again);
  const accepted = await findAccepted(look, sources.log, again);
  // A corrected event of the same id was accepted in its place.
  if (accepted !== undefined && accepted.headers[HEADER.reevaluatedBy] === undefined) return known;
  const reevaluated = {
    ...verdict,
    replay_id: entry.headers[HEADER.reevaluatedBy] ?? '',
    at: entry.timestamp,
  };
  const contract = { ...known.contract, reevaluated };
  return wayOfPassed(look, sources, { entry, event }, { ...known, contract }, accepted);
}

type Passed = Way & Required<Pick<Way, 'contract'>>;

async function wayOfPassed(
  look: Look,
  sources: WaySources,
  received: ReceivedEvent,
  known: Passed,
  found?: LogEntry,
): Promise<Way> {
  const { log } = sources;
  const accepted = found ?? (await findAccepted(look, log, received));
  if (accepted === undefined) {
    const { records } = await findPoisoned(look, log, received);
    return { ...known, ...givenUpBy(records[0]) };
  }
  const passed = { ...known, accepted: placeOf(accepted) };
  const { topic, partition, offset } = accepted.position;
  const routed = (await log.positionOf('route', topic, partition)) ?? 0;
  if (routed <= offset) return { ...passed, stage: 'route' };
  const state = sources.catalog.state;
  const asRouted = { entry: accepted, event: JSON.parse(accepted.value) as CanonicalEvent };
  const rules = await rulesWay(look, { ...sources, state }, asRouted);
  return { ...passed, ...(await withoutGivenUp(look, log, received, rules)) };
}

function placeOf({ position, timestamp }: LogEntry): Placed {
  return { position, at: timestamp };
}
