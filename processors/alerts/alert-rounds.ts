import {
  type Alert,
  type AlertChange,
  type AlertSeries,
  type Catalog,
  type DueChange,
  EventLoopYielder,
  evaluateAlert,
  evaluateWatch,
  type Fact,
  type FunnelRow,
  isAboutDeliveries,
  iso,
  messageOf,
  newId,
  type ReadFunnel,
  readAlertSeries,
  type StageSample,
  watchedDestination,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { StageParts } from '../stages.ts';

/** Samplings of the stages within one round. */
const SAMPLES = 6;
/** Counts that are complete up to an earlier time only are not evaluated, ms: single minutes are kept for an hour. */
const MAX_BEHIND_MS = 4 * 60_000;
/** Reads of hours that do not change any more are kept so long, ms, and so many of them. */
const KEEP_MS = 60 * 60_000;
const MAX_KEPT = 5_000;
/** Counts of older hours do not change, ms: events received then were counted, or the stages stand still. */
const FINAL_AFTER_MS = 48 * 60 * 60_000;
/** Alerts whose first counted day is remembered. */
const MAX_KNOWN = 50_000;

interface AlertRoundsDependencies extends Pick<StageParts, 'clock' | 'elapsed' | 'logger' | 'metrics'> {
  readonly catalog: Pick<Catalog, 'state' | 'propose'>;
  readonly read: ReadFunnel;
  /** Where the stages are, by name, whichever process runs them. */
  samples(): Promise<ReadonlyMap<string, StageSample>>;
  /** Whether this process evaluates: one of all is enough. More at a time are harmless. */
  isOwner(): boolean;
  /** Interval of the evaluations, ms. */
  readonly roundMs: number;
  /** Two changes of an alert are reported, then one in this time, ms. */
  readonly everyMs: number;
}

/**
 * Evaluates the alerts of all workspaces every `roundMs`, and proposes each change to the catalog. The fold accepts one of
 * several equal proposals, and the stage `notice` reports it, so a change that a killed process found is found again, and
 * none is reported twice. Nothing is kept but reads: the state of an alert is in the catalog.
 *
 * Alerts of one workspace share their reads; a round reads one alert after the other.
 */
export class AlertRounds {
  readonly #dependencies: AlertRoundsDependencies;
  readonly #progress = new CountProgress();
  readonly #finalRows = new LRUCache<string, readonly FunnelRow[]>({ max: MAX_KEPT, ttl: KEEP_MS });
  readonly #countedSince = new LRUCache<string, number>({ max: MAX_KNOWN, ttl: KEEP_MS });
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isClosed = false;
  #isDown = false;
  #isOwner = false;
  #ticks = 0;

  constructor(dependencies: AlertRoundsDependencies) {
    this.#dependencies = dependencies;
  }

  begin(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#running = this.#tick().finally(() => this.begin());
    }, this.#dependencies.roundMs / SAMPLES).unref();
  }

  /** Waits for the evaluation under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** Never rejects: the next tick repeats failed work. */
  async #tick(): Promise<void> {
    const isRound = this.#ticks++ % SAMPLES === 0;
    try {
      if (isRound) this.#isOwner = this.#dependencies.isOwner();
      if (this.#isOwner) await this.#evaluate(isRound);
      this.#isDown = false;
    } catch (error) {
      this.#dependencies.metrics.count('tributary_alert_evaluations_total', { outcome: 'failed' });
      if (!this.#isDown)
        this.#dependencies.logger.warn({ error: messageOf(error) }, 'alerts cannot be evaluated for now');
      this.#isDown = true;
    }
  }

  async #evaluate(isRound: boolean): Promise<void> {
    const { catalog, clock, elapsed } = this.#dependencies;
    const workspaces = [];
    const thread = new EventLoopYielder(elapsed);
    for (const id of catalog.state.workspaceIds()) {
      if (catalog.state.listing('alert', id, 'enabled').size > 0) workspaces.push(id);
      if (thread.isYieldDue) await thread.yield();
    }
    if (workspaces.length === 0) return;
    const beganAt = clock();
    const samples = await this.#dependencies.samples();
    const [validate, funnel] = [samples.get('validate'), samples.get('funnel')];
    const counted = this.#progress.add({ beganAt, endedAt: clock(), validate, funnel });
    if (!isRound) return;
    for (const workspaceId of workspaces) {
      if (this.#isClosed) return;
      await this.#evaluateWorkspace(workspaceId, counted);
    }
  }

  async #evaluateWorkspace(workspaceId: string, counted: CountedUntil): Promise<void> {
    const { state } = this.#dependencies.catalog;
    if (state.workspace(workspaceId)?.status !== 'active') return;
    const read = this.#sharedReads();
    for (const alert of [...state.listing('alert', workspaceId, 'enabled').newestFirst()]) {
      if (this.#isClosed) return;
      await this.#evaluateOne(alert, counted, read);
    }
  }

  async #evaluateOne(alert: Alert, counted: CountedUntil, read: ReadFunnel): Promise<void> {
    const { clock, metrics, everyMs, roundMs } = this.#dependencies;
    const note = (outcome: string) => metrics.count('tributary_alert_evaluations_total', { outcome });
    const now = clock();
    const known = isAboutDeliveries(alert.watch) ? counted.deliveries : counted.events;
    // The time of a record is interpolated between two samplings.
    const completeUntil = known === undefined ? undefined : known - (2 * roundMs) / SAMPLES;
    if (completeUntil === undefined || completeUntil < now - MAX_BEHIND_MS - 2 * roundMs) {
      note('behind');
      return;
    }
    const about = watchedDestination(alert.watch);
    if (about !== null && !this.#isActive(alert.workspace_id, about)) {
      note('unknown');
      return;
    }
    const series = await this.#seriesOf(alert, completeUntil, read);
    note(evaluateWatch(alert, series, alert.condition?.state ?? 'ok').state);
    const due = evaluateAlert(alert, series, alert.condition, now, everyMs);
    if (due !== undefined) await this.#propose(alert, due, now);
  }

  async #seriesOf(alert: Alert, completeUntil: number, read: ReadFunnel): Promise<AlertSeries> {
    const { environment, watch, time_zone, workspace_id: workspaceId } = alert;
    const key = `${alert.id} ${alert.version}`;
    const series = await readAlertSeries(read, {
      workspaceId,
      environment,
      watch,
      time_zone,
      completeUntil,
      countedSince: this.#countedSince.get(key),
      isActive: (id) => this.#isActive(workspaceId, id),
    });
    if (series.countedSince !== undefined) this.#countedSince.set(key, series.countedSince);
    return series;
  }

  #isActive(workspaceId: string, destinationId: string): boolean {
    const destination = this.#dependencies.catalog.state.entity('destination', workspaceId, destinationId);
    return destination?.enabled === true && destination.paused !== true;
  }

  /** Equal queries are read once, those of hours long ago once an hour. */
  #sharedReads(): ReadFunnel {
    const { read, clock } = this.#dependencies;
    const shared = new Map<string, Promise<readonly FunnelRow[]>>();
    return async (query) => {
      const key = JSON.stringify(query);
      const known = this.#finalRows.get(key);
      if (known !== undefined) return known;
      const rows = shared.get(key) ?? read(query);
      shared.set(key, rows);
      if (query.to < clock() - FINAL_AFTER_MS) this.#finalRows.set(key, await rows);
      return rows;
    };
  }

  /** A conflict means that another process proposed the change first. */
  async #propose(alert: Alert, { evaluation, pacedUntil }: DueChange, now: number): Promise<void> {
    const { catalog, logger } = this.#dependencies;
    const { state, value, limit, expected, from, until } = evaluation;
    const data: AlertChange = {
      id: newId(),
      state,
      value,
      limit,
      expected,
      from: iso(from),
      until: iso(until),
      paced_until: iso(pacedUntil),
    };
    const fact: Fact = {
      v: 1,
      type: 'alert.turned',
      entity: alert.id,
      expected_version: alert.condition?.turns ?? 0,
      data,
      by: 'stage:notice',
      from: { address: '', request_id: '' },
      at: iso(now),
    };
    const verdict = await catalog.propose(fact);
    if (!verdict.applied) return;
    logger.info({ alert: alert.id, workspace: alert.workspace_id, state }, 'the state of an alert changed');
  }
}

/** A sampling of the stages whose work the counts depend on. Times are epoch ms. */
interface CountSample {
  /** Before and after the sampling. */
  readonly beganAt: number;
  readonly endedAt: number;
  readonly validate: StageSample | undefined;
  readonly funnel: StageSample | undefined;
}

/** Until when all is counted, epoch ms; undefined where that is not known yet. */
interface CountedUntil {
  /** Events, by when they were received. */
  readonly events: number | undefined;
  /** Outcomes of deliveries, by when they were known. */
  readonly deliveries: number | undefined;
}

interface Validated {
  readonly at: number;
  /** All events appended before this time had been validated at the sampling. */
  readonly until: number;
}

/** Samples that are kept: the counts of a stage that is further behind are not complete for a long time. */
const MAX_SAMPLES = 120;

/**
 * Follows until when events are counted. An event is counted after two steps: `validate` appends its counts, the stage
 * `funnel` stores them. So everything is counted that had been validated when the oldest count in the topic was appended.
 */
export class CountProgress {
  #validated: Validated[] = [];

  add({ beganAt, endedAt, validate, funnel }: CountSample): CountedUntil {
    const stored = doneUntil(funnel, beganAt);
    const until = doneUntil(validate, beganAt);
    const counted = stored === undefined ? undefined : this.#validatedAt(stored);
    if (until !== undefined) {
      this.#validated.push({ at: endedAt, until });
      if (this.#validated.length > MAX_SAMPLES) this.#validated.shift();
    }
    return { events: counted, deliveries: stored };
  }

  /** Until when events had been validated at a time. Samples before it are not needed any more, except the last. */
  #validatedAt(time: number): number | undefined {
    const last = this.#validated.findLastIndex(({ at }) => at <= time);
    if (last === -1) return undefined;
    this.#validated = this.#validated.slice(last);
    return this.#validated[0]?.until;
  }
}

/** Until when the records of a stage are done: all of them at the sampling, or those before the oldest one that is left. */
function doneUntil(sample: StageSample | undefined, at: number): number | undefined {
  if (sample === undefined) return undefined;
  let until = at;
  for (const { lag, oldestAt } of sample.partitions) {
    if (lag === 0) continue;
    if (oldestAt === undefined) return undefined;
    until = Math.min(until, oldestAt);
  }
  return until;
}
