import {
  type CanonicalEvent,
  type Deduplicator,
  type EntryLocation,
  type EventLog,
  type EventTrace,
  HEADER,
  type History,
  type LogEntry,
  organizationOf,
  type ScanCoverage,
} from '@tributary/core';
import type { ContractDependencies } from '../ingestion/contract-check.ts';
import { FairSemaphore } from '../limits/fair-semaphore.ts';
import { contractStep, findAccepted, isInSlowValidation, isValidated } from './accepted-event.ts';
import { failedStage, findDeadLetters, withDeadLetters } from './dead-letters.ts';
import { LogScan } from './log-scan.ts';
import { findReceived, findReevaluated, type ReceivedEvent, type TraceQuery } from './received-event.ts';
import { traceRules } from './rules.ts';

/** How long one trace reads, ms. */
const BUDGET_MS = 1_500;
/** Traces of one process at a time, as the log serves producers too; and those that wait, in all and of one workspace. */
const CONCURRENCY = { concurrency: 2, maxWaiting: 20, maxWaitingPerOwner: 4, retryAfterSeconds: 2 };

/** The sources of a trace, which are only read. The event path writes nothing for traces. */
export interface TraceSources extends ContractDependencies {
  readonly log: EventLog;
  readonly deduplicator: Pick<Deduplicator, 'winner'>;
  readonly reevaluations: Pick<Deduplicator, 'winner'>;
  readonly history: Pick<History, 'get'>;
  readonly dedicatedTopics: readonly string[];
}

/** The path of an event through the pipeline, without how much of the log was read for it. */
type Path = Omit<EventTrace, 'scan'>;

/** The path of an event whose contract was evaluated. */
type ValidatedPath = Path & Required<Pick<Path, 'contract'>>;

export interface TraceResult {
  /** Undefined when the event was not found. */
  readonly trace: EventTrace | undefined;
  readonly coverage: ScanCoverage;
}

/**
 * Traces an event through the pipeline: each part of its path is read where it happened, from the log, the deduplicator,
 * the catalog and history.
 */
export class EventTracer {
  readonly #sources: TraceSources;
  readonly #semaphore = new FairSemaphore(CONCURRENCY);

  constructor(sources: TraceSources) {
    this.#sources = sources;
  }

  /**
   * Errors:
   *
   * - 429 while too many traces wait, and when the client disconnects before its trace starts;
   * - `Unavailable` when the log does not respond, or when this process's catalog is behind the event's.
   */
  trace(query: TraceQuery, disconnected: AbortSignal): Promise<TraceResult> {
    const owner = organizationOf(this.#sources.catalog.state, query.workspaceId);
    return this.#semaphore.run(owner, disconnected, async () => {
      const scan = new LogScan(this.#sources.log, BUDGET_MS, () => performance.now());
      const received = await findReceived(scan, this.#sources, query);
      const path = received && (await pathOf(scan, this.#sources, received));
      const coverage = scan.coverage();
      return { trace: path && { ...path, scan: coverage }, coverage };
    });
  }
}

async function pathOf(scan: LogScan, sources: TraceSources, received: ReceivedEvent): Promise<Path> {
  const { log } = sources;
  const { entry, event } = received;
  const keyId = entry.headers[HEADER.keyId];
  const known = {
    event,
    received: entryLocationOf(entry),
    ...(keyId === undefined ? {} : { key_id: keyId }),
    rules: [],
  };
  if (!(await isValidated(log, entry))) return { ...known, stage: 'validate' };
  if (await isInSlowValidation(scan, log, received)) return { ...known, stage: 'validate.slow' };
  const contract = await contractStep(sources, received);
  if (contract.outcome === 'rejected') {
    const reevaluated = await findReevaluated(scan, sources, received);
    return reevaluated === undefined
      ? { ...known, contract }
      : pathOfReevaluated(scan, sources, reevaluated, { ...known, contract });
  }
  return pathOfAccepted(scan, sources, received, { ...known, contract });
}

/** The path of a rejected event that a replay had re-evaluated: it continues from the re-evaluation. */
async function pathOfReevaluated(
  scan: LogScan,
  sources: TraceSources,
  reevaluation: ReceivedEvent,
  known: ValidatedPath,
): Promise<Path> {
  const { entry, event } = reevaluation;
  const { violations: _none, ...verdict } = await contractStep(sources, reevaluation);
  const accepted = await findAccepted(scan, sources.log, reevaluation);
  // A corrected event of the same id was accepted instead.
  if (accepted !== undefined && accepted.headers[HEADER.reevaluatedBy] === undefined) return known;
  const reevaluated = {
    ...verdict,
    replay_id: entry.headers[HEADER.reevaluatedBy] ?? '',
    at: entry.timestamp,
  };
  const contract = { ...known.contract, reevaluated };
  return pathOfAccepted(scan, sources, { entry, event }, { ...known, contract }, accepted);
}

async function pathOfAccepted(
  scan: LogScan,
  sources: TraceSources,
  received: ReceivedEvent,
  known: ValidatedPath,
  found?: LogEntry,
): Promise<Path> {
  const { log } = sources;
  const accepted = found ?? (await findAccepted(scan, log, received));
  if (accepted === undefined) {
    const { records } = await findDeadLetters(scan, log, received);
    return { ...known, ...failedStage(records[0]) };
  }
  const path = { ...known, accepted: entryLocationOf(accepted) };
  const { topic, partition, offset } = accepted.position;
  const routed = (await log.positionOf('route', topic, partition)) ?? 0;
  if (routed <= offset) return { ...path, stage: 'route' };
  const state = sources.catalog.state;
  const asRouted = { entry: accepted, event: JSON.parse(accepted.value) as CanonicalEvent };
  const rules = await traceRules(scan, { ...sources, state }, asRouted);
  return { ...path, ...(await withDeadLetters(scan, log, received, rules)) };
}

function entryLocationOf({ position, timestamp }: LogEntry): EntryLocation {
  return { position, at: timestamp };
}
