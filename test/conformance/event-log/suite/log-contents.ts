import { type EventLog, type LogEntry, type NewEntry, partitionOf, Unavailable } from '@tributary/core';
import { PARTITIONS } from './harness.ts';

/** Everything a topic holds, partition after partition. */
export async function readAll(log: EventLog, topic: string): Promise<LogEntry[]> {
  const all: LogEntry[] = [];
  const partitions = log.topics.get(topic)?.partitions ?? 0;
  for (let partition = 0; partition < partitions; partition++)
    all.push(...(await readPartition(log, topic, partition)));
  return all;
}

export async function readPartition(
  log: EventLog,
  topic: string,
  partition: number,
  from = 0,
): Promise<LogEntry[]> {
  const all: LogEntry[] = [];
  let next = from;
  let end: number | undefined;
  // A record just committed may take a moment to become readable; a log that was just silent may take a
  // moment to answer.
  await eventually(
    async () => {
      end ??= await log.end(topic, partition);
      for (;;) {
        const result = await log.read(topic, partition, next);
        if (result.next === next) return next >= end;
        all.push(...result.entries);
        next = result.next;
      }
    },
    `${topic}/${partition} cannot be read to its end`,
    30_000,
  );
  return all;
}

export async function valuesOf(log: EventLog, topic: string): Promise<unknown[]> {
  return (await readAll(log, topic)).map(({ value }) => JSON.parse(value));
}

/** `count` entries of one key; values are the numbers from `first` on. */
export function numbered(key: string, count: number, first = 0): NewEntry[] {
  return Array.from({ length: count }, (_, i) => ({ key, value: String(first + i), headers: {} }));
}

export function numbers(count: number, first = 0): number[] {
  return Array.from({ length: count }, (_, i) => first + i);
}

/** One key for each partition, by partition. */
export function keyPerPartition(): string[] {
  const keys: string[] = [];
  for (let i = 0; keys.filter((key) => key !== undefined).length < PARTITIONS; i++) {
    keys[partitionOf(`key${i}`, PARTITIONS)] ??= `key${i}`;
  }
  return keys;
}

/** Polls until `check` is true and the log answers; fails with the awaited condition on timeout. */
export async function eventually(
  check: () => boolean | Promise<boolean>,
  what: string,
  withinMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  const holds = async () => {
    try {
      return await check();
    } catch (thrown) {
      if (thrown instanceof Unavailable) return false;
      throw thrown;
    }
  };
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A promise and its handles. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
