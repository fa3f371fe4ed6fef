import {
  addLatencies,
  type BadReason,
  type Catalog,
  type CatalogView,
  type Clock,
  type DeliveryResult,
  type Destination,
  type DestinationHealth,
  type DestinationState,
  type Fact,
  type GaugeName,
  type HealthBoard,
  type HealthChange,
  type HealthError,
  type HealthReport,
  type HealthSample,
  healthMetricsOf,
  iso,
  isQuiet,
  type Labels,
  type LatencyCounts,
  type Logger,
  latencyBucket,
  latencyPercentile,
  MAX_LAST_ERRORS,
  type Metrics,
  mergeHealth,
  messageOf,
  newId,
  type ReportedCondition,
  reportedCondition,
  startOf,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import { hasOwnLimits } from './admission.ts';
import { isThrottled } from './outcome.ts';

/** Window of the counts in a report, and of its recent attempts, ms; they advance in steps of five seconds. */
const HEALTH_WINDOW_MS = 60_000;
const RECENT_MS = 5 * 60_000;
const BUCKET_MS = 5_000;

/** The part of a report that is counted; the rest is the state of the moment. */
type Tallied = Pick<
  HealthReport,
  'window_ms' | Counted | 'throttled' | 'recent' | 'latency' | 'last_delivered_at' | 'last_errors'
>;

type Counted = 'delivered' | 'retry' | 'dead' | 'put_off';

/** Counts since they were last taken. A throttled attempt counts as a delivery that was put off. */
export type HealthIncrement = Pick<HealthReport, Counted | 'latency'>;

/** Counts the attempts at one destination, over all its queues, until they are taken. Bounded. */
export class HealthCounts {
  #counts = { delivered: 0, retry: 0, dead: 0, put_off: 0 };
  #latencies = new Map<number, number>();

  attempted(outcome: Exclude<Counted, 'put_off'>, latency: number, times: number): void {
    this.#counts[outcome] += times;
    this.#latencies.set(latency, (this.#latencies.get(latency) ?? 0) + times);
  }

  noteNotAttempted(times = 1): void {
    this.#counts.put_off += times;
  }

  take(): HealthIncrement {
    const taken = { ...this.#counts, latency: addLatencies([[...this.#latencies]]) };
    this.#counts = { delivered: 0, retry: 0, dead: 0, put_off: 0 };
    this.#latencies = new Map();
    return taken;
  }
}

interface Bucket {
  readonly number: number;
  readonly counts: Record<Counted | 'throttled', number>;
  readonly latencies: Map<number, number>;
}

/**
 * Counts the attempts at one destination in the last minutes. Bounded: sixty buckets and a few errors. `elapsed` is ms of
 * a monotonic clock, `now` epoch ms.
 */
export class HealthTally {
  readonly #beganAt: number;
  #buckets: Bucket[] = [];
  #lastDeliveredAt: number | null = null;
  #errors: readonly HealthError[] = [];

  readonly #sinceTaken: HealthCounts;

  /** `sinceTaken` counts the same attempts. */
  constructor(elapsed: number, sinceTaken: HealthCounts) {
    this.#beganAt = elapsed;
    this.#sinceTaken = sinceTaken;
  }

  /** `times` attempts had this result; they count as one error. */
  attempted(
    result: Exclude<DeliveryResult, { outcome: 'unwanted' }>,
    durationMs: number,
    now: number,
    elapsed: number,
    times = 1,
  ): void {
    const bucket = this.#bucketAt(elapsed);
    if (isThrottled(result)) {
      bucket.counts.throttled += times;
      this.#sinceTaken.noteNotAttempted(times);
    } else {
      bucket.counts[result.outcome] += times;
      const latency = latencyBucket(durationMs);
      bucket.latencies.set(latency, (bucket.latencies.get(latency) ?? 0) + times);
      this.#sinceTaken.attempted(result.outcome, latency, times);
    }
    if (result.outcome === 'delivered') this.#lastDeliveredAt = now;
    else {
      const { outcome, reason, status } = result;
      const error = { at: now, outcome, reason, ...(status === undefined ? {} : { status }) };
      this.#errors = [error, ...this.#errors].slice(0, MAX_LAST_ERRORS);
    }
  }

  noteNotAttempted(elapsed: number): void {
    this.#bucketAt(elapsed).counts.put_off += 1;
    this.#sinceTaken.noteNotAttempted();
  }

  tallied(elapsed: number): Tallied {
    this.#forget(elapsed);
    const oldest = bucketBefore(elapsed, HEALTH_WINDOW_MS);
    const minute = this.#buckets.filter(({ number }) => number > oldest);
    const total = (counted: keyof Bucket['counts'], buckets: readonly Bucket[] = minute) =>
      buckets.reduce((sum, { counts }) => sum + counts[counted], 0);
    const latencies = minute.map((bucket): LatencyCounts => [...bucket.latencies]);
    return {
      window_ms: Math.max(1, Math.min(HEALTH_WINDOW_MS, elapsed - this.#beganAt)),
      delivered: total('delivered'),
      retry: total('retry'),
      dead: total('dead'),
      throttled: total('throttled'),
      put_off: total('put_off'),
      recent: {
        delivered: total('delivered', this.#buckets),
        failed: total('retry', this.#buckets) + total('dead', this.#buckets),
        throttled: total('throttled', this.#buckets),
      },
      latency: addLatencies(latencies),
      last_delivered_at: this.#lastDeliveredAt,
      last_errors: this.#errors,
    };
  }

  #bucketAt(elapsed: number): Bucket {
    const number = Math.floor(elapsed / BUCKET_MS);
    const last = this.#buckets.at(-1);
    if (last?.number === number) return last;
    this.#forget(elapsed);
    const counts = { delivered: 0, retry: 0, dead: 0, throttled: 0, put_off: 0 };
    const bucket: Bucket = { number, counts, latencies: new Map() };
    this.#buckets.push(bucket);
    return bucket;
  }

  #forget(elapsed: number): void {
    const oldest = bucketBefore(elapsed, RECENT_MS);
    this.#buckets = this.#buckets.filter(({ number }) => number > oldest);
  }
}

/** The number of the newest bucket before a window. */
function bucketBefore(elapsed: number, windowMs: number): number {
  return Math.floor(elapsed / BUCKET_MS) - windowMs / BUCKET_MS;
}

/** Interval of reports, ms. */
const REPORT_EVERY_MS = 5_000;
/** A process without a report for this long has left its share of a destination's limits to the others, ms. */
const EXPIRED_AFTER_MS = 3 * REPORT_EVERY_MS;

/** Destinations with metrics under their own name, of all that a process delivers to; the others share one. */
const NAMED = 100;
const OTHERS = 'other';

/** A report without the names of its process and workspace. */
export type DestinationReport = Omit<HealthReport, 'workspace_id' | 'process'>;

/** Reports of all live processes on the destinations of these reports. `Unavailable` as the board. */
async function liveReports(
  board: Pick<HealthBoard, 'read'>,
  about: readonly HealthReport[],
  clock: Clock,
): Promise<readonly HealthReport[]> {
  const live: HealthReport[] = [];
  for (const [workspaceId, reports] of Map.groupBy(about, ({ workspace_id }) => workspace_id)) {
    const known = await board.read(
      workspaceId,
      reports.map(({ destination_id }) => destination_id),
    );
    live.push(...known.filter(({ at }) => at > clock() - EXPIRED_AFTER_MS));
  }
  return live;
}

/** The destinations of this process. */
interface ReportedDestinations {
  health(): readonly DestinationReport[];
  /** Counts of each destination since the last call. */
  takeCounts(): ReadonlyMap<string, HealthIncrement>;
}

/** Destinations in trouble whose streaks are kept. */
const REMEMBERED = 10_000;
/** Evaluations within the time after which a destination is reported bad, and the shortest interval of rounds, ms. */
const EVALUATIONS = 4;
const MIN_EVERY_MS = 100;

interface RoundsDependencies {
  readonly catalog: { readonly state: Pick<CatalogView, 'destination'> } & Pick<Catalog, 'propose'>;
  /** Absent: there is no other process, and health is reported as metrics alone. */
  readonly healthBoard?: Pick<HealthBoard, 'report' | 'record' | 'read'> | undefined;
  readonly condition: AlertLimits;
  readonly clock: Clock;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

type DestinationGauge = Extract<GaugeName, `tributary_destination_${string}`>;

interface ReportedGauge {
  readonly name: DestinationGauge;
  readonly labels: Labels & { readonly destination: string };
}

const NOTHING: HealthIncrement = { delivered: 0, retry: 0, dead: 0, put_off: 0, latency: [] };

/** The part of a minute's history that a report and the counts since the one before add. */
function sampleOf(report: HealthReport, counts: HealthIncrement = NOTHING): HealthSample {
  const { workspace_id, destination_id, waiting, oldest_waiting_at: oldest, circuit } = report;
  const at = startOf(report.at, 'minute');
  const oldest_waiting_ms = oldest === null ? 0 : Math.max(0, report.at - oldest);
  return { workspace_id, destination_id, at, ...counts, waiting, oldest_waiting_ms, circuit };
}

interface Reported {
  readonly destination: Destination;
  readonly report: HealthReport;
}

/**
 * Reports every few seconds on the destinations of this process, to the board and as metrics, and reads from the board how many
 * processes share the limits of each. A report that the board does not take is dropped: the next one replaces it. Its counts
 * are then missing in the history, as the board may have taken them, and so are those of a killed process.
 *
 * In the same rounds destinations are evaluated by the reports of all processes, and each change to bad or back to well is
 * proposed to the catalog. Every process that delivers to a destination does so; the catalog's fold accepts one of their
 * proposals. Streaks are lost with the process, which delays a report. A proposal that the catalog did not take is repeated
 * after the next evaluation.
 *
 * A destination without limits of its own that does well by this process's own report, and was not reported bad, is not read
 * from the board.
 */
export class HealthRounds {
  readonly #dependencies: RoundsDependencies;
  readonly #process: string;
  readonly #destinations: ReportedDestinations;
  readonly #named = new Set<string>();
  /** Gauges of the last report. */
  #reported: ReportedGauge[] = [];
  #processes: ReadonlyMap<string, number> = new Map();
  readonly #streaks = new LRUCache<string, Streak>({ max: REMEMBERED });
  /** Destinations whose pause is being proposed. */
  readonly #pausing = new Set<string>();
  #goesOn = false;
  #isDown = false;

  /** `process`: the id of this process on the board; a new one at each start. */
  constructor(
    dependencies: RoundsDependencies,
    destinations: ReportedDestinations,
    process: string = newId(),
  ) {
    this.#dependencies = dependencies;
    this.#process = process;
    this.#destinations = destinations;
  }

  /** Starts the rounds, which continue while there are destinations. */
  begin(): void {
    if (this.#goesOn) return;
    this.#goesOn = true;
    const everyMs = Math.min(REPORT_EVERY_MS, this.#dependencies.condition.badAfterMs / EVALUATIONS);
    setTimeout(
      async () => {
        const reports = this.#destinations.health();
        await this.round(reports);
        this.#goesOn = false;
        // A destination that was added during the round did not schedule the next one.
        if (reports.length > 0 || this.#destinations.health().length > 0) this.begin();
      },
      Math.max(MIN_EVERY_MS, everyMs),
    ).unref();
  }

  /** How many processes share the limits of a destination, this one among them. */
  processesOf(id: string): number {
    return this.#processes.get(id) ?? 1;
  }

  /** Never rejects: what failed is repeated by the next round. */
  async round(reports: readonly DestinationReport[]): Promise<void> {
    const { catalog, logger } = this.#dependencies;
    this.#measure(reports);
    const own = reports.flatMap((report): Reported[] => {
      const destination = catalog.state.destination(report.destination_id);
      if (destination === undefined) return [];
      const { workspace_id } = destination;
      return [{ destination, report: { ...report, workspace_id, process: this.#process } }];
    });
    const failures: unknown[] = [];
    // Each by itself: a board that takes no writes may still be read.
    for (const step of [() => this.#report(own), () => this.#evaluate(own)])
      await step().catch((error: unknown) => failures.push(error));
    const isDown = failures.length > 0;
    if (isDown && !this.#isDown)
      logger.warn(
        { error: messageOf(failures[0]) },
        'the health of destinations cannot be reported or evaluated',
      );
    this.#isDown = isDown;
  }

  async #report(own: readonly Reported[]): Promise<void> {
    const { healthBoard } = this.#dependencies;
    if (healthBoard === undefined) return;
    const counts = this.#destinations.takeCounts();
    const samples = own
      .map(({ report }) => sampleOf(report, counts.get(report.destination_id)))
      .filter((sample) => !isQuiet(sample));
    await healthBoard.report(own.map(({ report }) => report));
    await healthBoard.record(samples);
  }

  /**
   * Where all reports of a destination together are bad, at least one process's own report is, as no share of the whole exceeds
   * the largest of its parts: that process evaluates.
   */
  async #evaluate(own: readonly Reported[]): Promise<void> {
    const { healthBoard, clock, condition: limits } = this.#dependencies;
    const isCandidate = ({ destination, report }: Reported) => {
      if (!destination.enabled || destination.paused === true) return false;
      const { id, condition } = destination;
      return condition?.state === 'bad' || this.#streaks.has(id) || isBad(report, limits);
    };
    const candidates = own.filter(isCandidate);
    // All processes together share the limits of such a destination.
    const wanted = own.filter((each) => hasOwnLimits(each.destination) || candidates.includes(each));
    const about = wanted.map(({ report }) => report);
    const live = healthBoard === undefined ? about : await liveReports(healthBoard, about, clock);
    const byId = Map.groupBy(live, ({ destination_id }) => destination_id);
    this.#processes = new Map(Array.from(byId, ([id, { length }]) => [id, length]));
    for (const { destination, report } of candidates) {
      const others = byId.get(destination.id)?.filter(({ process }) => process !== this.#process) ?? [];
      const health = mergeHealth([report, ...others]);
      if (health !== undefined) await this.#evaluateOne(destination, health);
    }
  }

  async #evaluateOne(destination: Destination, health: DestinationHealth): Promise<void> {
    const { condition: limits, elapsed, clock } = this.#dependencies;
    const { id, condition } = destination;
    const streak = streakAfter(this.#streaks.get(id), evaluateHealth(health, limits), elapsed());
    if (streak === undefined) return;
    this.#streaks.set(id, streak);
    const reported = reportedCondition(condition);
    const due = changeDue(reported, streak, clock(), limits);
    if (due !== undefined) await this.#propose(destination, health, streak, due.pacedUntil);
    else if (streak.state === 'well' && reported?.state !== 'bad') this.#streaks.delete(id);
  }

  /** A conflict means that another process reported the change first. */
  async #propose(
    destination: Destination,
    health: DestinationHealth,
    { state, because, since }: Streak,
    pacedUntil: number,
  ): Promise<void> {
    const { catalog, clock, elapsed, logger, metrics } = this.#dependencies;
    const now = clock();
    const change = {
      state,
      because,
      since: iso(Math.round(now - (elapsed() - since))),
      paced_until: iso(pacedUntil),
    };
    const verdict = await catalog.propose(healthChange(destination, change, health, iso(now)));
    if (!verdict.applied) return;
    metrics.count('tributary_destination_health_changes_total', { state });
    logger.warn({ destination: destination.id, state, because }, 'the health of a destination changed');
  }

  #measure(reports: readonly DestinationReport[]): void {
    const { metrics, clock } = this.#dependencies;
    const now = clock();
    this.#forgetAllBut(new Set(reports.map(({ destination_id }) => destination_id)));
    const named = Map.groupBy(reports, (report) => this.#nameOf(report));
    for (const { name, labels } of this.#reported)
      if (!named.has(labels.destination)) metrics.removeGauge(name, labels);
    this.#reported = [];
    for (const [destination, together] of named) {
      const gauge = (name: DestinationGauge, value: number, more = {}) => {
        const labels = { destination, ...more };
        metrics.gauge(name, value, labels);
        this.#reported.push({ name, labels });
      };
      const sum = (of: (report: DestinationReport) => number) =>
        together.reduce((total, report) => total + of(report), 0);
      const worst = (of: (report: DestinationReport) => number) => Math.max(0, ...together.map(of));
      for (const counted of ['delivered', 'retry', 'dead', 'throttled', 'put_off'] as const) {
        const perSecond = sum((report) => ((report[counted] ?? 0) * 1_000) / report.window_ms);
        const outcome = counted === 'put_off' ? 'not_attempted' : counted;
        gauge('tributary_destination_deliveries_per_second', perSecond, { outcome });
      }
      for (const quantile of [0.5, 0.99]) {
        const ms = worst(({ latency }) => latencyPercentile(latency, quantile) ?? 0);
        gauge('tributary_destination_attempt_quantile_seconds', ms / 1_000, { quantile: String(quantile) });
      }
      gauge(
        'tributary_destination_pace_per_second',
        sum(({ pace = 0 }) => pace),
      );
      gauge(
        'tributary_destination_deliveries_pending',
        sum(({ waiting }) => waiting),
      );
      gauge(
        'tributary_destination_deliveries_in_flight',
        sum(({ under_way }) => under_way),
      );
      gauge(
        'tributary_destination_oldest_pending_seconds',
        worst(({ oldest_waiting_at: at }) => (at === null ? 0 : now - at)) / 1_000,
      );
      gauge(
        'tributary_destination_circuits_open',
        sum(({ circuit }) => (circuit === 'closed' ? 0 : 1)),
      );
    }
  }

  /**
   * Pauses a destination that answered `410 Gone`, or disconnects one whose tokens are refused, and proposes a notice. A pause that
   * the catalog refuses, because another process made it or the destination was changed meanwhile, is dropped: the next attempt
   * proposes it again. `version` is the one that answered: settings changed since may point elsewhere. Never rejects.
   */
  async pause(id: string, version: number, reason: PauseReason): Promise<void> {
    if (this.#pausing.has(id)) return;
    this.#pausing.add(id);
    try {
      await this.#pause(id, version, reason);
    } catch (error) {
      const { logger } = this.#dependencies;
      logger.warn(
        { destination: id, reason, error: messageOf(error) },
        'a destination could not be paused; the next attempt tries again',
      );
    } finally {
      this.#pausing.delete(id);
    }
  }

  /** The notice comes first: after a crash in between the next attempt repeats it, so it is not lost. */
  async #pause(id: string, version: number, reason: PauseReason): Promise<void> {
    const { catalog, clock, logger, metrics } = this.#dependencies;
    const destination = catalog.state.destination(id);
    if (destination?.version !== version || destination.paused === true) return;
    const at = iso(clock());
    const report = this.#destinations.health().find(({ destination_id }) => destination_id === id);
    const health =
      report && mergeHealth([{ ...report, workspace_id: destination.workspace_id, process: '' }]);
    const paced_until = destination.condition?.paced_until ?? at;
    const change = { state: 'bad', because: reason, since: at, paced_until } as const;
    const noticed = await catalog.propose(healthChange(destination, change, health, at));
    if (noticed.applied) metrics.count('tributary_destination_health_changes_total', { state: 'bad' });
    const origin = {
      v: 1,
      entity: id,
      by: 'stage:deliver',
      from: { address: '', request_id: '' },
      at,
    } as const;
    const paused = await catalog.propose(
      reason === 'gone'
        ? {
            ...origin,
            type: 'destination.updated',
            expected_version: version,
            data: { paused: true, paused_because: { reason, at } },
          }
        : {
            ...origin,
            type: 'destination.disconnected',
            expected_version: destination.connection?.turns ?? 0,
            data: { refused: true },
          },
    );
    if (paused.applied) logger.warn({ destination: id, reason }, 'a destination was paused');
  }

  /** The names of those that were forgotten are free for others. */
  #forgetAllBut(known: ReadonlySet<string>): void {
    for (const id of this.#named) if (!known.has(id)) this.#named.delete(id);
  }

  #nameOf({ destination_id: id }: DestinationReport): string {
    if (this.#named.has(id)) return id;
    if (this.#named.size >= NAMED) return OTHERS;
    this.#named.add(id);
    return id;
  }
}

/** Why deliveries pause a destination: it answered `410 Gone`, or its service refuses its tokens. */
export type PauseReason = 'gone' | 'access_refused';

/** The fact that the health of a destination changed. The catalog takes one of several from the same state. */
function healthChange(
  { id, condition }: Destination,
  change: Pick<HealthChange, 'state' | 'because' | 'since' | 'paced_until'>,
  health: DestinationHealth | undefined,
  at: string,
): Fact {
  const figures =
    health === undefined
      ? { delivered_per_second: 0, failed_per_second: 0, oldest_waiting_ms: null, last_errors: [] }
      : healthMetricsOf(health);
  return {
    v: 1,
    type: 'destination.turned',
    entity: id,
    expected_version: condition?.turns ?? 0,
    data: { id: newId(), ...change, ...figures },
    by: 'stage:deliver',
    from: { address: '', request_id: '' },
    at,
  };
}

function isBad(report: HealthReport, limits: AlertLimits): boolean {
  const health = mergeHealth([report]);
  return health !== undefined && evaluateHealth(health, limits).kind === 'bad';
}

/** The evaluation of a destination at one moment. `unknown`: it is at rest or in between; the state known before stays. */
type HealthEvaluation =
  | { readonly kind: 'bad'; readonly because: BadReason }
  | { readonly kind: 'well' }
  | { readonly kind: 'unknown' };

export interface AlertLimits {
  /** A destination is reported bad once it was found bad for this long, ms. `unknown` evaluations do not interrupt this. */
  readonly badAfterMs: number;
  /** A destination is reported well again once it was found well for this long, ms. */
  readonly wellAfterMs: number;
  /** Two changes of a destination are reported, and from then on one in this time, ms, however it flaps. */
  readonly everyMs: number;
  /** A queued delivery that waited for longer makes its destination bad, ms. */
  readonly waitingMs: number;
}

export const DEFAULT_ALERT_LIMITS: AlertLimits = {
  badAfterMs: 2 * 60_000,
  wellAfterMs: 30_000,
  everyMs: 60 * 60_000,
  waitingMs: 60_000,
};

/**
 * `failing`: more than half of the attempts of the last minute failed; `rate_limited`: the destination refused more of them
 * for their rate than it took. As many as were delivered: `unknown`.
 */
export function evaluateHealth(
  health: DestinationHealth,
  { waitingMs }: Pick<AlertLimits, 'waitingMs'>,
): HealthEvaluation {
  const {
    delivered_per_second: delivered,
    failed_per_second: failed,
    throttled_per_second: throttled,
    put_off_per_second: notAttempted,
  } = health;
  if (health.circuit === 'open') return { kind: 'bad', because: 'circuit_open' };
  if (failed > delivered) return { kind: 'bad', because: 'failing' };
  if (throttled > delivered) return { kind: 'bad', because: 'rate_limited' };
  if ((health.oldest_waiting_ms ?? 0) > waitingMs) return { kind: 'bad', because: 'waiting' };
  if (notAttempted > delivered) return { kind: 'bad', because: 'behind' };
  const isWell = health.circuit === 'closed' && delivered > failed;
  return { kind: isWell ? 'well' : 'unknown' };
}

/** Consecutive evaluations with the same result. Times are ms of a monotonic clock. */
export interface Streak {
  readonly state: DestinationState;
  /** The reason by the last evaluation; null while the destination is well. */
  readonly because: BadReason | null;
  readonly since: number;
  readonly lastAt: number;
}

/** The streak after one more evaluation; unchanged by an `unknown` one. */
export function streakAfter(
  streak: Streak | undefined,
  evaluation: HealthEvaluation,
  now: number,
): Streak | undefined {
  if (evaluation.kind === 'unknown') return streak;
  const since = streak?.state === evaluation.kind ? streak.since : now;
  const because = evaluation.kind === 'bad' ? evaluation.because : null;
  return { state: evaluation.kind, because, since, lastAt: now };
}

/** Whether a streak is to be reported now, and up to when that uses up the rate of reports; `now` is epoch ms. */
export function changeDue(
  reported: ReportedCondition | undefined,
  streak: Streak,
  now: number,
  { badAfterMs, wellAfterMs, everyMs }: AlertLimits,
): { readonly pacedUntil: number } | undefined {
  if (streak.state === (reported?.state ?? 'well')) return undefined;
  const needed = streak.state === 'bad' ? badAfterMs : wellAfterMs;
  if (streak.lastAt - streak.since < needed) return undefined;
  const pacedUntil = Math.max(now, reported?.pacedUntil ?? 0) + everyMs;
  return pacedUntil - now <= 2 * everyMs ? { pacedUntil } : undefined;
}
