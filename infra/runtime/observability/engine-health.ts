import {
  CLOCK_TOLERANCE_MS,
  type Counters,
  type EventLog,
  type History,
  type Metrics,
  messageOf,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import type { EngineConfig } from '../process/data-folder.ts';

/** A failed write counts until another one succeeds, or none was tried for this long, ms. */
const FAILED_WRITE_MS = 60_000;
/** A probe pending for longer counts as unanswered, ms. */
const UNANSWERED_AFTER_MS = 10_000;

interface Known {
  /** Start of the probe under way, by `now`. */
  probedAt?: number | undefined;
  /** Result of the last probe; undefined before the first. */
  answer?: 'answers' | { readonly error: string };
  failedWrite?: { readonly error: string; readonly at: number } | undefined;
  /** How far the clock of this machine is ahead of that of the engine, ms. */
  clockAheadMs?: number;
}

export interface EngineHealthOptions {
  readonly metrics: Metrics;
  /** The thread that probes. */
  readonly part: 'main' | 'stages';
  /** Monotonic, ms. */
  readonly now?: () => number;
}

/**
 * The health of the engines of a process, by the probes of `watchEngines` and by the writes of its own work. An engine that
 * answers reads and refuses writes, such as a Redis without memory or an Elasticsearch with a write block, is not healthy.
 */
export class EngineHealth {
  readonly #metrics: Metrics;
  readonly #part: 'main' | 'stages';
  readonly #now: () => number;
  readonly #engines = new Map<string, Known>();

  constructor({ metrics, part, now = () => performance.now() }: EngineHealthOptions) {
    this.#metrics = metrics;
    this.#part = part;
    this.#now = now;
  }

  /** A probe has started; `answered` follows. */
  probed(engine: string): void {
    this.#of(engine).probedAt = this.#now();
    this.#report(engine);
  }

  answered(engine: string, error?: unknown): void {
    const known = this.#of(engine);
    known.probedAt = undefined;
    known.answer = error === undefined ? 'answers' : { error: messageOf(error) };
    this.#checked(engine);
  }

  /** Reports the result of a write. An error other than `Unavailable` shows that the engine answers. */
  wrote(engine: string, error?: unknown): void {
    const known = this.#of(engine);
    if (error instanceof Unavailable) known.failedWrite = { error: error.message, at: this.#now() };
    else if (known.failedWrite === undefined)
      return; // the usual case costs nothing
    else known.failedWrite = undefined;
    this.#checked(engine);
  }

  /** The clock of this machine was compared with that of the engine; `ms` below 0: it is behind. */
  clockCompared(engine: string, ms: number): void {
    this.#of(engine).clockAheadMs = ms;
    this.#metrics.gauge('tributary_clock_ahead_seconds', ms / 1_000, { engine, part: this.#part });
  }

  /** The state of each engine, by name: `answers`, or what is wrong. A wrong clock of this machine is named beside it. */
  status(): Readonly<Record<string, string>> {
    return Object.fromEntries(
      [...this.#engines].map(([name, known]) => [name, `${this.#stateOf(known)}${clockFault(known)}`]),
    );
  }

  /** Reports the gauges again, because the state also depends on time. */
  refresh(): void {
    for (const engine of this.#engines.keys()) this.#report(engine);
  }

  #of(engine: string): Known {
    const known = this.#engines.get(engine) ?? {};
    this.#engines.set(engine, known);
    return known;
  }

  #stateOf({ probedAt, answer, failedWrite }: Known): string {
    const silentMs = probedAt === undefined ? 0 : this.#now() - probedAt;
    if (silentMs > UNANSWERED_AFTER_MS)
      return `does not answer: silent for ${Math.round(silentMs / 1_000)} s`;
    if (answer === undefined) return 'not asked yet';
    if (answer !== 'answers') return `does not answer: ${answer.error}`;
    if (failedWrite !== undefined && this.#now() - failedWrite.at <= FAILED_WRITE_MS)
      return `refuses writes: ${failedWrite.error}`;
    return 'answers';
  }

  #checked(engine: string): void {
    const labels = { engine, part: this.#part };
    this.#metrics.gauge('tributary_engine_checked_timestamp_seconds', Date.now() / 1_000, labels);
    this.#report(engine);
  }

  #report(engine: string): void {
    const state = this.#stateOf(this.#of(engine));
    if (state === 'not asked yet') return;
    const labels = { engine, part: this.#part };
    this.#metrics.gauge('tributary_engine_up', state === 'answers' ? 1 : 0, labels);
  }
}

function clockFault({ clockAheadMs: ahead = 0 }: Known): string {
  if (Math.abs(ahead) <= CLOCK_TOLERANCE_MS) return '';
  return `; the clock of this machine is ${Math.round(Math.abs(ahead) / 1_000)} s ${ahead > 0 ? 'ahead of' : 'behind'} it`;
}

/** Wraps a port so that the outcome of each of these calls is reported. Errors are rethrown. */
export function reportingCalls<Port extends object>(
  port: Port,
  calls: readonly (keyof Port & string)[],
  report: (error?: unknown) => void,
): Port {
  const members = new Map<string | symbol, unknown>();
  const memberOf = (name: string | symbol): unknown => {
    const member: unknown = Reflect.get(port, name, port);
    if (typeof member !== 'function') return member;
    if (!(calls as readonly (string | symbol)[]).includes(name)) return member.bind(port);
    return async (...args: readonly unknown[]) => {
      try {
        const answer: unknown = await Reflect.apply(member, port, args);
        report();
        return answer;
      } catch (error) {
        report(error);
        throw error;
      }
    };
  };
  return new Proxy(port, {
    get(_port, name) {
      const known = members.get(name);
      if (known !== undefined) return known;
      const member = memberOf(name);
      if (typeof member === 'function') members.set(name, member);
      return member;
    },
  });
}

/** How often engines are probed, ms. */
const PROBE_EVERY_MS = 5_000;

/** Probes of an engine; they reject while it does not answer. */
export interface EngineProbe {
  read(): Promise<unknown>;
  /** A write without visible effect. Absent if the writes of the process's own work suffice. */
  write?(): Promise<unknown>;
}

/** Probes engines periodically, so that `/readyz` and `/metrics` need not wait for them. */
export interface EngineWatch {
  close(): void;
}

/** A silent engine has one pending probe at most, and does not delay the others. */
export function watchEngines(
  probes: Readonly<Record<string, EngineProbe>>,
  health: EngineHealth,
  everyMs = PROBE_EVERY_MS,
): EngineWatch {
  const pending = new Set<string>();
  const probeOnce = async (name: string, probe: EngineProbe) => {
    if (pending.has(name)) return;
    pending.add(name);
    health.probed(name);
    try {
      await probe.read();
      health.answered(name);
    } catch (error) {
      health.answered(name, error);
    }
    await probe.write?.().then(
      () => health.wrote(name),
      (error: unknown) => health.wrote(name, error),
    );
    pending.delete(name);
  };
  const probeAll = () => {
    health.refresh();
    for (const [name, probe] of Object.entries(probes)) void probeOnce(name, probe);
  };
  probeAll();
  const timer = setInterval(probeAll, everyMs).unref();
  return { close: () => clearInterval(timer) };
}

interface EnginePorts {
  readonly log: EventLog;
  readonly counters: Counters;
  readonly history: History;
}

/** Probes the distributed engines of a process. */
export function watchConfiguredEngines(
  { kafkaBrokers, redisUrl, elasticsearchUrl }: EngineConfig,
  { log, counters, history }: EnginePorts,
  health: EngineHealth,
): EngineWatch {
  const probes: Record<string, EngineProbe> = {};
  if (kafkaBrokers.length > 0)
    probes.kafka = {
      async read() {
        const ahead = log.clockAheadMs?.();
        if (ahead !== undefined) health.clockCompared('kafka', ahead);
        await log.end(TOPIC.catalog, 0);
      },
    };
  if (redisUrl !== undefined)
    probes.redis = {
      read: () => counters.lastUsed(['nobody']),
      // A write, because a server without memory still answers reads. The key does not exist.
      write: () => counters.touch({ keyId: 'nobody', at: Date.now() }),
    };
  if (elasticsearchUrl !== undefined)
    probes.elasticsearch = { read: () => history.get('audit', 'nobody', 'nothing') };
  return watchEngines(probes, health);
}

/** The port; the outcomes of these writes are reported if it is on the engine. */
export function watched<Port extends object>(
  port: Port,
  writes: readonly (keyof Port & string)[],
  engine: 'kafka' | 'elasticsearch',
  { kafkaBrokers, elasticsearchUrl }: EngineConfig,
  health: EngineHealth | undefined,
): Port {
  const isUsed = engine === 'kafka' ? kafkaBrokers.length > 0 : elasticsearchUrl !== undefined;
  if (health === undefined || !isUsed) return port;
  return reportingCalls(port, writes, (error) => health.wrote(engine, error));
}

/** The writes of the profiles whose outcomes are reported. */
export const PROFILE_WRITES = ['upsert', 'delete', 'unlink'] as const;
