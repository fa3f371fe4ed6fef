import {
  HEADER,
  type Headers,
  type LogEntry,
  type ReadOptions,
  type ReadResult,
  type TopicSpec,
  Unavailable,
  unpack,
  type ValueFraming,
} from '@tributary/core';
import { entriesFrom, type Read, type RecentReads } from '../stage-runner/partition-loop.ts';
import { type Cursor, pause, type Taken } from '../stage-runner/work.ts';
import { type KafkaClient, offsetOf } from './client/client.ts';
import {
  type AbortedTransaction,
  type FetchAnswer,
  type FetchedPartition,
  failOn,
  protocolErrorOf,
  type RecordBatch,
  type RecordRead,
  translateKafkaError,
} from './client/protocol.ts';
import type { Installation } from './topics.ts';

const READ_BYTES = 1024 * 1024;

/** The offset is not kept any more; `first` is the first one that is. */
interface FirstKept {
  readonly first: number;
}

/** `client`: for reads that do not wait at the broker. */
interface LogReaderOptions extends Pick<Installation, 'client' | 'nameOf'> {
  /** For reads that do. */
  readonly watcher: Fetcher;
  readonly framing: ValueFraming;
  readonly closing: AbortSignal;
}

/** Reads partitions outside of any stage. */
export class LogReader {
  readonly #options: LogReaderOptions;
  readonly #reader: Fetcher;

  constructor(options: LogReaderOptions) {
    this.#options = options;
    this.#reader = new Fetcher(options.client, () => 0);
  }

  /** See `EventLog.read`. */
  async read(
    spec: TopicSpec,
    partition: number,
    from: number,
    options: ReadOptions = {},
  ): Promise<ReadResult> {
    const { client, nameOf, framing, closing } = this.#options;
    const { name: topic, packed } = spec;
    const { maxBytes = READ_BYTES, waitMs = 0, signal } = options;
    const signals = [closing, ...(signal ? [signal] : [])];
    const of = { topic, partition, packed, framing };
    const name = nameOf(topic);
    let next = Math.max(0, from);
    const wanted = (fires: AbortSignal) => ({
      topic: name,
      partition,
      offset: next,
      maxBytes,
      signal: fires,
    });
    const found = (fetched: Fetched | FirstKept): ReadResult | undefined => {
      if ('first' in fetched) {
        next = fetched.first;
        return undefined;
      }
      const { records, next: behind } = withinBytes(fetched, maxBytes);
      const entries = entriesOf(records, of, { offset: next, index: 0 }).map(({ entry }) => entry);
      next = behind;
      return entries.length > 0 ? { entries, next } : undefined;
    };
    // Existing records are read at once, also while others wait at the broker.
    const end = await offsetOf(client, name, partition, 'stable');
    while (next < end) {
      const fetched = await this.#fetch(this.#reader, wanted(AbortSignal.any(signals)));
      if (!fetched) return { entries: [], next };
      const result = found(fetched);
      if (result) return result;
    }
    if (waitMs === 0) return { entries: [], next };
    const waiting = AbortSignal.any([...signals, AbortSignal.timeout(waitMs)]);
    for (;;) {
      const fetched = await this.#fetch(this.#options.watcher, wanted(waiting));
      if (!fetched) {
        await pause(waitMs, waiting); // beyond the end a broker does not wait
        return { entries: [], next };
      }
      const result = found(fetched);
      if (result) return result;
    }
  }

  /** Below the first offset kept it is `FirstKept`; beyond the end undefined. */
  async #fetch(fetcher: Fetcher, wanted: Wanted): Promise<Fetched | FirstKept | undefined> {
    try {
      return await fetcher.fetch(wanted);
    } catch (thrown) {
      if (!(thrown instanceof OffsetOutOfRange)) throw thrown;
      const first = await offsetOf(this.#options.client, wanted.topic, wanted.partition, 'first');
      return wanted.offset < first ? { first } : undefined;
    }
  }
}

/** Cuts an answer to the bytes that the caller wanted: a broker sends whole batches. */
function withinBytes(fetched: Fetched, maxBytes: number): Fetched {
  const { records } = fetched;
  let bytes = 0;
  for (const [i, { value }] of records.entries()) {
    bytes += value?.length ?? 0;
    const following = records[i + 1];
    if (bytes >= maxBytes && following) {
      return { records: records.slice(0, i + 1), next: following.offset };
    }
  }
  return fetched;
}

interface PartitionReaderOptions {
  readonly fetcher: Fetcher;
  readonly spec: TopicSpec;
  /** The topic's name in Kafka. */
  readonly name: string;
  readonly partition: number;
  readonly framing: ValueFraming;
  readonly maxBytes: number;
  /** Recent reads of the partition by other stages of the process; undefined where none reads it. */
  readonly shared: () => RecentReads | undefined;
}

/** Answers remembered for the age of the first unfinished entry. */
const MAX_MARKS = 1_024;

/** A fetch in progress, or its answer. */
interface Prefetch {
  readonly from: number;
  readonly read: Promise<Read | undefined>;
  readonly cancel: () => void;
  /** When the answer arrived, by `performance.now()`. */
  answeredAt?: number;
}

/**
 * Reads one partition for a stage, one answer ahead: the next is fetched while the stage works on this one, and a partition
 * without records is part of every fetch request.
 */
export class PartitionReader {
  readonly #options: PartitionReaderOptions;
  #ahead: Prefetch | undefined;
  /** There are no entries between these offsets. */
  #gap = { from: 0, to: 0 };
  /** Answers with entries that may be unfinished, each with the time of its first entry. */
  readonly #read: { readonly offset: number; readonly next: number; readonly timestamp: number }[] = [];
  #records = 0;
  #entries = 0;

  constructor(options: PartitionReaderOptions) {
    this.#options = options;
  }

  /**
   * Entries from the cursor on; empty once the signal fired. Rejects as `Fetcher.fetch`. `position`: the stage's, where
   * the entries between it and the cursor are no longer kept.
   */
  async fetch(from: Cursor, signal: AbortSignal, position = from.offset): Promise<readonly Taken[]> {
    this.#gap = { from: position, to: from.offset };
    for (let cursor = from; ; cursor = { offset: this.#gap.to, index: 0 }) {
      const read = await this.#answer(cursor.offset, signal);
      if (!read) return [];
      const next = read.after.offset;
      this.#ahead = this.#prefetch(next);
      const taken = entriesFrom(read, cursor);
      this.#note(taken, next);
      if (taken.length > 0) return taken;
      this.#gap.to = next;
    }
  }

  /**
   * As `fetch` directly behind the last answer, but empty when no entries come in time, or records that are not visible
   * alone. Empty as well when the fetch failed: the next `fetch` repeats it and rejects with the reason.
   */
  async fetchWithin(ms: number, from: Cursor, signal: AbortSignal): Promise<readonly Taken[]> {
    const prefetch = this.#ahead;
    if (prefetch?.from !== from.offset || from.index !== 0) return [];
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(), ms);
    try {
      const inTime = AbortSignal.any([signal, over.signal]);
      const came = prefetch.read.then(
        (read) => (read === undefined ? 'nothing' : 'something'),
        () => 'failure',
      );
      // An answer that comes too late is there for the next fetch.
      const found = await Promise.race([came, pause(ms, inTime).then(() => 'nothing')]);
      if (found === 'failure' && this.#ahead === prefetch) this.#ahead = undefined;
      return found === 'something' ? await this.fetch(from, inTime) : [];
    } finally {
      clearTimeout(timer);
      over.abort();
    }
  }

  /** The position behind the offsets without entries. */
  pastGap(offset: number): number {
    return offset === this.#gap.from ? this.#gap.to : offset;
  }

  /** Entries in a record, on average; undefined before the first. */
  get entriesPerRecord(): number | undefined {
    return this.#records === 0 ? undefined : this.#entries / this.#records;
  }

  /** The append time of the first unfinished entry, exact to one answer, epoch ms; undefined where it was not read. */
  oldestAt(done: number): number | undefined {
    while ((this.#read[0]?.next ?? Number.POSITIVE_INFINITY) <= done) this.#read.shift();
    return this.#read[0]?.timestamp;
  }

  #note(taken: readonly Taken[], next: number): void {
    const [first] = taken;
    if (first === undefined) return;
    for (const { after } of taken) if (after.index === 0) this.#records++;
    this.#entries += taken.length;
    const { offset } = first.entry.position;
    // After a rewind the same entries are read again.
    while ((this.#read.at(-1)?.offset ?? -1) >= offset) this.#read.pop();
    this.#read.push({ offset, next, timestamp: first.entry.timestamp });
    // The oldest stays.
    if (this.#read.length > MAX_MARKS) this.#read.splice(1, MAX_MARKS / 2);
  }

  /** How long ago the next answer arrived, ms; undefined before that. */
  aheadFor(now: number): number | undefined {
    return this.#ahead?.answeredAt === undefined ? undefined : now - this.#ahead.answeredAt;
  }

  close(): void {
    this.#ahead?.cancel();
    this.#ahead = undefined;
  }

  async #answer(offset: number, signal: AbortSignal): Promise<Read | undefined> {
    if (this.#ahead?.from !== offset) this.#ahead?.cancel();
    const prefetch = this.#ahead?.from === offset ? this.#ahead : this.#prefetch(offset);
    this.#ahead = undefined;
    signal.addEventListener('abort', prefetch.cancel, { once: true });
    if (signal.aborted) prefetch.cancel();
    try {
      return await prefetch.read;
    } finally {
      signal.removeEventListener('abort', prefetch.cancel);
    }
  }

  #prefetch(from: number): Prefetch {
    const cancellation = new AbortController();
    const { signal } = cancellation;
    const request = () => this.#request(from, signal);
    const read = this.#options.shared()?.findOr(from, request) ?? request();
    const prefetch: Prefetch = {
      from,
      read: Promise.race([read, whenAborted(signal)]),
      cancel: () => cancellation.abort(),
    };
    const answered = () => {
      prefetch.answeredAt = performance.now();
    };
    // `#answer` handles the rejection.
    prefetch.read.then(answered, answered);
    return prefetch;
  }

  async #request(from: number, signal: AbortSignal): Promise<Read | undefined> {
    const { fetcher, name, partition, maxBytes, spec, framing } = this.#options;
    const fetched = await fetcher.fetch({ topic: name, partition, offset: from, maxBytes, signal });
    if (fetched === undefined) return undefined;
    return new FetchedRead(fetched, from, { topic: spec.name, partition, packed: spec.packed, framing });
  }
}

/** Decodes its entries when a stage takes them, once for all stages that do. */
class FetchedRead implements Read {
  readonly from: Cursor;
  readonly after: Cursor;
  readonly #of: EntriesOf;
  #fetched: Fetched | undefined;
  #taken: readonly Taken[] = [];

  constructor(fetched: Fetched, from: number, of: EntriesOf) {
    this.from = { offset: from, index: 0 };
    this.after = { offset: fetched.next, index: 0 };
    this.#of = of;
    this.#fetched = fetched;
  }

  get taken(): readonly Taken[] {
    if (this.#fetched !== undefined) {
      const taken = entriesOf(this.#fetched.records, this.#of, this.from);
      const last = taken.pop();
      // Behind the last entry there may be records that are not visible: finishing it finishes them.
      if (last !== undefined) taken.push({ ...last, after: this.after });
      this.#taken = taken;
      this.#fetched = undefined;
    }
    return this.#taken;
  }
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }));
}

/** Bytes of one answer of a broker, at most; one record may be larger. */
const ANSWER_BYTES = 8 * 1024 * 1024;

/** The offset is not kept any more, or not written yet. */
export class OffsetOutOfRange extends Unavailable {}

/** A partition to read from an offset on. The topic has its name in Kafka. */
interface Wanted {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** With the caller's promise. */
interface Waiting extends Wanted {
  readonly resolve: (fetched: Fetched | undefined) => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Reads many partitions with one request to each broker at a time. A fetch that is called while a request waits at its
 * broker is part of the next request, so `waitMs` bounds its delay.
 */
export class Fetcher {
  readonly #client: KafkaClient;
  readonly #waitMs: () => number;
  readonly #wanted = new Map<number, Waiting[]>();

  /** `waitMs`, called before each request: how long the broker may wait for records. */
  constructor(client: KafkaClient, waitMs: () => number) {
    this.#client = client;
    this.#waitMs = waitMs;
  }

  /**
   * Committed records from the offset on, about `maxBytes` of them; waits until there are some, or the offset can move
   * past records that are not visible. Undefined once the signal fired. Rejects with `OffsetOutOfRange`, else
   * `Unavailable`.
   */
  fetch(wanted: Wanted): Promise<Fetched | undefined> {
    const { topic, partition, signal } = wanted;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return resolve(undefined);
      const abandon = () => resolve(undefined);
      signal.addEventListener('abort', abandon, { once: true });
      const settled = <T>(settle: (value: T) => void) => {
        return (value: T) => {
          signal.removeEventListener('abort', abandon);
          settle(value);
        };
      };
      const waiting = { ...wanted, resolve: settled(resolve), reject: settled<Error>(reject) };
      this.#client.leaderId(topic, partition).then((nodeId) => this.#add(nodeId, waiting), waiting.reject);
    });
  }

  #add(nodeId: number, one: Waiting): void {
    const wanted = this.#wanted.get(nodeId);
    if (wanted) {
      wanted.push(one);
      return;
    }
    this.#wanted.set(nodeId, [one]);
    void this.#serve(nodeId);
  }

  /** Sends requests to one broker for as long as there are partitions to read from it. */
  async #serve(nodeId: number): Promise<void> {
    for (;;) {
      // Callers that were just answered fetch again in the same turn.
      await new Promise((resolve) => setImmediate(resolve));
      const wanted = (this.#wanted.get(nodeId) ?? []).filter(({ signal }) => !signal.aborted);
      if (wanted.length === 0) {
        this.#wanted.delete(nodeId);
        return;
      }
      // A request names a partition once: the fetch that has waited for the longest goes first.
      const byPartition = new Map<string, Waiting>();
      for (const one of wanted) {
        const name = `${one.topic}/${one.partition}`;
        if (!byPartition.has(name)) byPartition.set(name, one);
      }
      const now = [...byPartition.values()];
      this.#wanted.set(
        nodeId,
        wanted.filter((one) => !now.includes(one)),
      );
      const unanswered = await this.#request(nodeId, now);
      this.#wanted.get(nodeId)?.push(...unanswered);
    }
  }

  /** Settles the fetches that the answer has records for, and returns the others. */
  async #request(nodeId: number, wanted: readonly Waiting[]): Promise<readonly Waiting[]> {
    let answer: FetchAnswer;
    try {
      answer = await this.#client.fetch(nodeId, {
        waitMs: this.#waitMs(),
        maxBytes: ANSWER_BYTES,
        partitions: rotated(wanted),
      });
    } catch (thrown) {
      const failure = translateKafkaError(thrown, 'reading');
      for (const { reject } of wanted) reject(failure);
      return [];
    }
    return wanted.filter((one) => !this.#settle(one, answer.partitions.get(`${one.topic}/${one.partition}`)));
  }

  /** False where the answer has nothing for it: to be requested again. */
  #settle(wanted: Waiting, answer: FetchedPartition | undefined): boolean {
    if (answer === undefined) return false;
    const { topic, partition, offset } = wanted;
    try {
      failOn(answer.errorCode);
    } catch (thrown) {
      const doing = `reading ${topic}/${partition} at ${offset}`;
      if (protocolErrorOf(thrown) === 'OFFSET_OUT_OF_RANGE') {
        wanted.reject(new OffsetOutOfRange(`Kafka: ${doing}: out of range`, { cause: thrown }));
      } else {
        this.#client.invalidateMetadata();
        wanted.reject(translateKafkaError(thrown, doing));
      }
      return true;
    }
    if (answer.fault !== undefined) {
      wanted.reject(translateKafkaError(answer.fault, `reading ${topic}/${partition} at ${offset}`));
      return true;
    }
    const seen = committed(answer.batches, answer.abortedTransactions, offset);
    if (seen.next === offset) return false;
    wanted.resolve(seen);
    return true;
  }
}

/** From a random one on: a broker fills its answer with the partitions that a request names first. */
function rotated(wanted: readonly Wanted[]): readonly Wanted[] {
  const first = Math.floor(Math.random() * wanted.length);
  return [...wanted.slice(first), ...wanted.slice(0, first)];
}

/** The part of a fetched partition that a read-committed reader sees. */
export interface Fetched {
  /** In order; neither control records nor those of aborted transactions. */
  readonly records: readonly RecordRead[];
  /** The offset behind everything that was read, also behind what is left out. */
  readonly next: number;
}

/**
 * The committed records of a partition's answer to a fetch from offset `from`. As Kafka's own consumer does it: an
 * aborted transaction begins for its producer at the listed offset and ends at that producer's abort marker. The list of
 * aborted transactions is not sorted, and may name a producer more than once.
 */
export function committed(
  batches: readonly RecordBatch[],
  aborted: readonly AbortedTransaction[],
  from: number,
): Fetched {
  const pending = [...aborted].sort((a, b) => a.firstOffset - b.firstOffset);
  const aborting = new Set<bigint>();
  const records: RecordRead[] = [];
  let begun = 0;
  let next = from;
  for (const batch of batches) {
    next = Math.max(next, batch.lastOffset + 1);
    for (let head = pending[begun]; head && head.firstOffset <= batch.lastOffset; head = pending[++begun])
      aborting.add(head.producerId);
    if (batch.isControl) {
      if (batch.isAbort) aborting.delete(batch.producerId);
      continue;
    }
    if (batch.isTransactional && aborting.has(batch.producerId)) continue;
    // A broker sends whole batches, also when the fetch begins within one.
    for (const record of batch.records) if (record.offset >= from) records.push(record);
  }
  return { records, next };
}

interface EntriesOf {
  /** Without the installation's prefix. */
  readonly topic: string;
  readonly partition: number;
  readonly packed: boolean;
  readonly framing: ValueFraming;
}

/** The entries of records, from the cursor on. */
export function entriesOf(
  records: readonly RecordRead[],
  { topic, partition, packed, framing }: EntriesOf,
  from: Cursor,
): Taken[] {
  const taken: Taken[] = [];
  for (const record of records) {
    const { offset, timestamp } = record;
    const { [HEADER.after]: bounds } = record.headers;
    const headers = bounds === undefined ? record.headers : withoutBounds(record.headers);
    const key = record.key ?? '';
    const text = record.value === null ? '' : framing.unframe(topic, record.value);
    const values = packed ? unpack(text) : [text];
    const first = offset === from.offset ? from.index : 0;
    for (let index = first; index < values.length; index++) {
      const entry: LogEntry = {
        position: { topic, partition, offset, index },
        key,
        value: values[index] ?? '',
        headers,
        timestamp,
      };
      const isLast = index === values.length - 1;
      const after = isLast ? { offset: offset + 1, index: 0 } : { offset, index: index + 1 };
      taken.push(bounds === undefined ? { entry, after } : { entry, after, bounds });
    }
  }
  return taken;
}

/** Bounds are of the record's own topic: a stage that passes headers on must not pass them to another. */
function withoutBounds({ [HEADER.after]: _bounds, ...headers }: Headers): Headers {
  return headers;
}
