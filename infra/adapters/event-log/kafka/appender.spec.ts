import {
  type NewEntry,
  Overloaded,
  PLAIN_FRAMING,
  type Position,
  partitionOf,
  TooLarge,
  type TopicSpec,
  Unavailable,
  unpack,
} from '@tributary/core';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Appender } from './appender.ts';
import type { ProduceAnswer, ProduceRequest, WrittenBatch } from './client/protocol.ts';
import { BatchLimits, BatchRefused, batchBytes } from './record-batch.ts';

const RUNS = 60;
/** Time limit for runs and shrinking, ms. A failure is reported then, as far as it has been shrunk. */
const LIMIT_MS = 60_000;
const NODES = 2;
const PARTITIONS = 4;
const PLAIN: TopicSpec = { name: 'plain', partitions: PARTITIONS, packed: false, retentionMs: 'forever' };
const PACKED: TopicSpec = { ...PLAIN, name: 'packed', packed: true };
const TIMEOUT_MS = 1_000;
/** Answers must come within this time after a call's timeout, ms. */
const ANSWERED_WITHIN_MS = TIMEOUT_MS + 2_000;
/** The period in which calls are made and leaders move, ms; the run ends once every call is answered. */
const LASTS_MS = 3_000;
/** All calls are answered and all requests ended by then. Code of other specs in this process may set timers for ever. */
const ENDED_WITHIN_MS = LASTS_MS + 2 * ANSWERED_WITHIN_MS;
const MAX_UNCONFIRMED_BYTES = 3_000_000;

const NOT_LEADER = 6;
const TIMED_OUT = 7;
const MESSAGE_TOO_LARGE = 10;
const NOT_ENOUGH_REPLICAS = 19;

/** The outcome of one request. */
interface Fate {
  readonly how: 'taken' | 'taken late' | 'refused' | 'not sent' | 'cut before' | 'cut after' | 'silent';
  /** The times to send, to append, and to answer, ms each. */
  readonly sendMs: number;
  readonly takeMs: number;
  readonly answerMs: number;
}

interface Move {
  readonly at: number;
  readonly partition: number;
  readonly to: number;
}

interface PlannedCall {
  readonly at: number;
  readonly topic: TopicSpec;
  readonly entries: readonly { readonly partition: number; readonly length: number }[];
}

interface MadeCall {
  readonly topic: TopicSpec;
  readonly entries: readonly NewEntry[];
  readonly tookMs: number;
  readonly outcome: readonly Position[] | Error;
}

const after = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Connection {
  /** Resolves when all earlier requests were appended. */
  turn: Promise<void>;
  /** Cuts each request that is still unanswered. */
  readonly cuts: Set<() => void>;
}

/** Brokers that process the requests of a connection in order, according to their fates. */
class Brokers {
  readonly leaders: number[] = Array.from({ length: PARTITIONS }, (_, n) => n % NODES);
  /** Values of the records by topic and partition; the offset is the index. */
  readonly logs = new Map<string, string[]>();
  isHealthy = false;
  readonly #fates: readonly Fate[];
  /** Larger batches are refused. */
  readonly #maxBytes: number;
  #asked = 0;
  #known = [...this.leaders];
  #invalidateMetadata = false;
  readonly #connections = new Map<number, Connection>();

  constructor(fates: readonly Fate[], maxBytes: number) {
    this.#fates = fates;
    this.#maxBytes = maxBytes;
  }

  readonly invalidateMetadata = (): void => {
    this.#invalidateMetadata = true;
  };

  readonly leaderId = async (_topic: string, partition: number): Promise<number> => {
    const { how, takeMs } = this.#next();
    await after(takeMs);
    if (how === 'not sent') throw new Unavailable('nobody tells who leads');
    if (this.#invalidateMetadata) this.#known = [...this.leaders];
    this.#invalidateMetadata = false;
    return this.#known[partition] ?? 0;
  };

  readonly produce = async (node: number, request: ProduceRequest) => {
    const fate = this.#next();
    await after(fate.sendMs);
    if (fate.how === 'not sent') throw new Unavailable('it cannot be reached');
    const connection = this.#connections.get(node) ?? { turn: Promise.resolve(), cuts: new Set() };
    this.#connections.set(node, connection);
    const answer = new Promise<ProduceAnswer>((resolve, reject) => {
      const cut = () => reject(new Unavailable('the connection is gone'));
      connection.cuts.add(cut);
      const taken = connection.turn.then(() => this.#take(node, request, fate));
      connection.turn = taken.then(() => {});
      void taken.then(async (answered) => {
        await after(fate.answerMs);
        connection.cuts.delete(cut);
        if (answered !== undefined) return resolve(answered);
        // A request in flight on this connection may still be accepted, even after those of its successor.
        if (this.#connections.get(node) === connection) this.#connections.delete(node);
        cut();
        for (const each of connection.cuts) each();
      });
    });
    return { answer };
  };

  #next(): Fate {
    const fate = this.#fates[this.#asked++ % this.#fates.length];
    if (this.isHealthy || fate === undefined) return { how: 'taken', sendMs: 0, takeMs: 1, answerMs: 1 };
    return fate;
  }

  /** The answer; undefined when the connection is cut, along with all requests in flight on it. */
  async #take(node: number, { batches }: ProduceRequest, fate: Fate): Promise<ProduceAnswer | undefined> {
    await after(fate.how === 'silent' ? TIMEOUT_MS : fate.takeMs);
    if (fate.how === 'silent' || fate.how === 'cut before') return undefined;
    const taken = batches.map(({ topic, partition, messages }): [string, WrittenBatch] => {
      const name = `${topic}/${partition}`;
      const refused = (errorCode: number): [string, WrittenBatch] => [name, { errorCode, baseOffset: '-1' }];
      if (this.leaders[partition] !== node) return refused(NOT_LEADER);
      if (fate.how === 'refused') return refused(NOT_ENOUGH_REPLICAS);
      if (!this.isHealthy && batchBytes(messages) > this.#maxBytes) return refused(MESSAGE_TOO_LARGE);
      const log = this.logs.get(name) ?? [];
      this.logs.set(name, log);
      const baseOffset = `${log.length}`;
      log.push(
        ...messages.map(({ value }) => (Buffer.isBuffer(value) ? value.toString() : value.texts.join('\n'))),
      );
      return [name, { errorCode: fate.how === 'taken late' ? TIMED_OUT : 0, baseOffset }];
    });
    return fate.how === 'cut after' ? undefined : new Map(taken);
  }
}

const KEYS = Array.from({ length: PARTITIONS }, (_, partition) => {
  let key = 0;
  while (partitionOf(`${key}`, PARTITIONS) !== partition) key++;
  return `${key}`;
});

/** Makes the calls at their times, while leaders move, and waits until all have ended. */
async function run(
  brokers: Brokers,
  calls: readonly PlannedCall[],
  moves: readonly Move[],
): Promise<readonly MadeCall[]> {
  const appender = new Appender({
    client: brokers,
    nameOf: (topic) => topic,
    framing: PLAIN_FRAMING,
    limits: new BatchLimits(),
    maxUnconfirmedBytes: MAX_UNCONFIRMED_BYTES,
    timeoutMs: TIMEOUT_MS,
  });
  let written = 0;
  const make = async ({ at, topic, entries: planned }: PlannedCall): Promise<MadeCall> => {
    await after(at);
    const entries = planned.map(({ partition, length }) => ({
      key: KEYS[partition] ?? '',
      value: JSON.stringify({ n: written++, text: 'x'.repeat(length) }),
      headers: {},
    }));
    const bytes = entries.reduce((sum, { value }) => sum + value.length, 0);
    const since = performance.now();
    const outcome = await appender.append(topic, entries, bytes).catch((thrown: Error) => thrown);
    return { topic, entries, tookMs: performance.now() - since, outcome };
  };
  for (const { at, partition, to } of moves) {
    setTimeout(() => {
      brokers.leaders[partition] = to;
    }, at);
  }
  const making = Promise.all(calls.toSorted((a, b) => a.at - b.at).map(make));
  await vi.advanceTimersByTimeAsync(ENDED_WITHIN_MS);
  const made = await making;

  brokers.isHealthy = true;
  // A request that exceeds the bound alone is accepted once no bytes are counted. The leader may have to be
  // looked up first.
  const large = { at: 0, topic: PLAIN, entries: [{ partition: 0, length: MAX_UNCONFIRMED_BYTES }] };
  const last: MadeCall[] = [];
  for (let attempt = 0; attempt < 2; attempt++) {
    const making = make(large);
    await vi.advanceTimersByTimeAsync(ENDED_WITHIN_MS);
    last.push(await making);
  }
  expect(last.at(-1)?.outcome).toHaveLength(1);
  return [...made, ...last];
}

function check(brokers: Brokers, calls: readonly MadeCall[]): void {
  const all = [...brokers.logs].flatMap(([, records]) => records.flatMap(unpack));
  expect(new Set(all).size, 'nothing is there twice').toBe(all.length);
  const newest = new Map<string, Position>();
  for (const { topic, entries, tookMs, outcome } of calls) {
    expect(tookMs, 'it is answered in time').toBeLessThanOrEqual(ANSWERED_WITHIN_MS);
    if (outcome instanceof Error) {
      expect([Unavailable, BatchRefused, Overloaded, TooLarge]).toContain(outcome.constructor);
      continue;
    }
    for (const [n, { key, value }] of entries.entries()) {
      const position = outcome[n];
      if (position === undefined) throw new Error('an entry has no position');
      const log = `${topic.name}/${position.partition}`;
      expect(position.partition).toBe(KEYS.indexOf(key));
      const record = brokers.logs.get(log)?.[position.offset] ?? '';
      // Compared here because a failed `expect` would print megabytes.
      expect(unpack(record)[position.index] === value, 'it is where it was said to be').toBe(true);
      const before = newest.get(log);
      expect(before === undefined || isBehind(position, before), 'it stands in the order of the calls').toBe(
        true,
      );
      newest.set(log, position);
    }
  }
}

function isBehind(a: Position, b: Position): boolean {
  return a.offset > b.offset || (a.offset === b.offset && a.index > b.index);
}

const ms = (most: number) => fc.integer({ min: 0, max: most });
const partition = fc.nat(PARTITIONS - 1);
const fates: fc.Arbitrary<readonly Fate[]> = fc.array(
  fc.record({
    how: fc.oneof(
      { weight: 8, arbitrary: fc.constant<Fate['how']>('taken') },
      {
        weight: 2,
        arbitrary: fc.constantFrom<Fate['how'][]>(
          'taken late',
          'refused',
          'not sent',
          'cut before',
          'cut after',
          'silent',
        ),
      },
    ),
    sendMs: fc.oneof({ weight: 5, arbitrary: ms(5) }, ms(300)),
    takeMs: ms(60),
    answerMs: ms(20),
  }),
  { minLength: 1, maxLength: 60 },
);
const moves: fc.Arbitrary<readonly Move[]> = fc.array(
  fc.record({ at: ms(LASTS_MS), partition, to: fc.nat(NODES - 1) }),
  { maxLength: 100 },
);
/** Some entries are so large that few or no others fit into the same batch or group. */
const length = fc.oneof(
  { weight: 12, arbitrary: fc.nat(100) },
  { weight: 1, arbitrary: fc.constantFrom(100_000, 500_000, 900_000) },
);
const maxBytes = fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.constantFrom(2_000, 300_000));
const calls: fc.Arbitrary<readonly PlannedCall[]> = fc.array(
  fc.record({
    at: fc.nat(LASTS_MS / 50).map((n) => n * 50),
    topic: fc.constantFrom(PLAIN, PACKED),
    entries: fc.array(fc.record({ partition, length }), { minLength: 1, maxLength: 6 }),
  }),
  { minLength: 1, maxLength: 200, size: 'max' },
);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it(
  'whatever brokers do: confirmed entries are stored, once, in order, and every call is answered in time',
  async () => {
    const outcomes = { confirmed: 0, unavailable: 0, overloaded: 0, tooLarge: 0 };
    await fc.assert(
      fc.asyncProperty(fates, moves, calls, maxBytes, async (its, moving, planned, most) => {
        const brokers = new Brokers(its, most);
        const made = await run(brokers, planned, moving);
        check(brokers, made);
        for (const { outcome } of made) {
          if (outcome instanceof Overloaded) outcomes.overloaded++;
          else if (outcome instanceof TooLarge) outcomes.tooLarge++;
          else if (outcome instanceof Error) outcomes.unavailable++;
          else outcomes.confirmed++;
        }
      }),
      { numRuns: RUNS, interruptAfterTimeLimit: LIMIT_MS },
    );
    console.log(outcomes);
    for (const calls of Object.values(outcomes)) expect(calls).toBeGreaterThan(0);
  },
  2 * LIMIT_MS,
);

it('of one group that could not be written failed all that came after them: the next is durable', async () => {
  const brokers = new Brokers([], Number.POSITIVE_INFINITY);
  let failures = 1;
  const appender = new Appender({
    client: brokers,
    nameOf: (topic) => topic,
    framing: {
      ...PLAIN_FRAMING,
      frame(topic, json) {
        if (failures-- > 0) throw new Error('no schema');
        return PLAIN_FRAMING.frame(topic, json);
      },
    },
    limits: new BatchLimits(),
    maxUnconfirmedBytes: MAX_UNCONFIRMED_BYTES,
    timeoutMs: TIMEOUT_MS,
  });
  const append = async () => {
    const appending = appender.append(PLAIN, [{ key: 'k', value: '1', headers: {} }], 100);
    appending.catch(() => {});
    await vi.advanceTimersByTimeAsync(ENDED_WITHIN_MS);
    return (await appending).map(({ offset }) => offset);
  };
  await expect(append()).rejects.toThrow('no schema');
  expect([await append(), await append()]).toEqual([[0], [1]]);
});
