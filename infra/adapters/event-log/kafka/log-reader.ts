import type { ReadOptions, ReadResult, TopicSpec, ValueFraming } from '@tributary/core';
import { pause } from '../stage-runner/work.ts';
import type { KafkaClient } from './client/client.ts';
import { type Fetched, Fetcher, OffsetOutOfRange } from './client/fetcher.ts';
import { offsetOf } from './client/offsets.ts';
import { entriesOf } from './records/entries.ts';

const READ_BYTES = 1024 * 1024;

/** The offset is not kept any more; `first` is the first one that is. */
interface FirstKept {
  readonly first: number;
}

export interface LogReaderOptions {
  /** For reads that do not wait at the broker. */
  readonly client: KafkaClient;
  /** For reads that do. */
  readonly watcher: Fetcher;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
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
    let next = Math.max(0, from);
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
    const end = await offsetOf(client, nameOf(topic), partition, 'stable');
    while (next < end) {
      const fetched = await this.#fetch(
        this.#reader,
        topic,
        partition,
        next,
        maxBytes,
        AbortSignal.any(signals),
      );
      if (!fetched) return { entries: [], next };
      const result = found(fetched);
      if (result) return result;
    }
    if (waitMs === 0) return { entries: [], next };
    const waiting = AbortSignal.any([...signals, AbortSignal.timeout(waitMs)]);
    for (;;) {
      const fetched = await this.#fetch(this.#options.watcher, topic, partition, next, maxBytes, waiting);
      if (!fetched) {
        await pause(waitMs, waiting); // beyond the end a broker does not wait
        return { entries: [], next };
      }
      const result = found(fetched);
      if (result) return result;
    }
  }

  /** Below the first offset kept it is `FirstKept`; beyond the end undefined. */
  async #fetch(
    fetcher: Fetcher,
    topic: string,
    partition: number,
    offset: number,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Fetched | FirstKept | undefined> {
    const { client, nameOf } = this.#options;
    const name = nameOf(topic);
    try {
      return await fetcher.fetch(name, partition, offset, maxBytes, signal);
    } catch (thrown) {
      if (!(thrown instanceof OffsetOutOfRange)) throw thrown;
      const first = await offsetOf(client, name, partition, 'first');
      return offset < first ? { first } : undefined;
    }
  }
}

/** Cuts an answer to the bytes that the caller wanted: a broker sends whole batches. */
function withinBytes(fetched: Fetched, maxBytes: number): Pick<Fetched, 'records' | 'next'> {
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
