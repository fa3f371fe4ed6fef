import { type Metrics, messageOf, Unavailable } from '@tributary/core';

/** A write that failed is not forgotten before another succeeded, or none was tried for this long, ms. */
const FAILED_WRITE_MS = 60_000;
/** An engine that keeps a question for longer does not answer, ms. */
const SILENT_AFTER_MS = 10_000;

interface Known {
  /** When the question that is under way was asked, by `now`. */
  askedAt?: number | undefined;
  /** How the last answer to a question of the watch was; undefined before the first. */
  answer?: 'answers' | { readonly error: string };
  failedWrite?: { readonly error: string; readonly at: number } | undefined;
}

export interface EngineHealthOptions {
  readonly metrics: Metrics;
  /** The thread that asks. */
  readonly part: 'main' | 'stages';
  /** Monotonic, ms. */
  readonly now?: () => number;
}

/**
 * What the engines of a process did with what they were last asked: the questions of `watchEngines`, and the writes of
 * the process's own work. An engine that answers reads and refuses writes, such as a Redis without memory or an
 * Elasticsearch with a write block, is not well.
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

  /** A question is on its way; `answered` follows. */
  asked(engine: string): void {
    this.#of(engine).askedAt = this.#now();
    this.#report(engine);
  }

  answered(engine: string, error?: unknown): void {
    const known = this.#of(engine);
    known.askedAt = undefined;
    known.answer = error === undefined ? 'answers' : { error: messageOf(error) };
    this.#checked(engine);
  }

  /** How a write ended. Errors that the engine is not the reason of say that it answered. */
  wrote(engine: string, error?: unknown): void {
    const known = this.#of(engine);
    if (error instanceof Unavailable) known.failedWrite = { error: error.message, at: this.#now() };
    else if (known.failedWrite === undefined)
      return; // the usual case costs nothing
    else known.failedWrite = undefined;
    this.#checked(engine);
  }

  /** Of each engine, by its name: `answers`, or what is wrong. */
  status(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.#engines].map(([name, known]) => [name, this.#wordsFor(known)]));
  }

  /** Reports the state again: time alone may have changed it. */
  refresh(): void {
    for (const engine of this.#engines.keys()) this.#report(engine);
  }

  #of(engine: string): Known {
    const known = this.#engines.get(engine) ?? {};
    this.#engines.set(engine, known);
    return known;
  }

  #wordsFor({ askedAt, answer, failedWrite }: Known): string {
    const silentMs = askedAt === undefined ? 0 : this.#now() - askedAt;
    if (silentMs > SILENT_AFTER_MS) return `does not answer: silent for ${Math.round(silentMs / 1_000)} s`;
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
    const words = this.#wordsFor(this.#of(engine));
    if (words === 'not asked yet') return;
    const labels = { engine, part: this.#part };
    this.#metrics.gauge('tributary_engine_up', words === 'answers' ? 1 : 0, labels);
  }
}

/** The port with the outcome of each of these calls reported; what it throws is thrown on. */
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
