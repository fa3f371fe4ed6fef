import { type LogEntry, NO_LOGGER, NO_METRICS, PLAIN_FRAMING, partitionOf } from '@tributary/core';
import {
  type KafkaLog,
  LogImport,
  OffsetTaken,
  openKafkaEventLog,
} from '@tributary/infra/adapters/event-log/kafka';
import { StoredLog, type StoredPartition } from '@tributary/infra/adapters/event-log/sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removePrefix } from '../../../helpers/remove-prefix.ts';
import { harness as sqlite } from '../sqlite/harness.ts';
import { type Medium, PARTITIONS, RECEIVED, SOURCE, TOPICS } from '../suite/harness.ts';
import { eventually, keyPerPartition, readAll } from '../suite/log-contents.ts';
import { batchStage, eachOf } from '../suite/stages.ts';

const BATCH_BYTES = 64 * 1024;

describe.skipIf(engines() === undefined)('a log that is imported from an embedded one', () => {
  let prefix: string;
  let medium: Medium;
  let target: KafkaLog;
  let records: LogImport;
  beforeEach(async () => {
    prefix = freshPrefix();
    medium = await sqlite.create();
    const connection = { brokers: (engines()?.kafkaBrokers ?? '').split(','), clientId: 'import' };
    target = await openKafkaEventLog({
      connection,
      prefix,
      topics: TOPICS,
      metrics: NO_METRICS,
      logger: NO_LOGGER,
    });
    records = new LogImport({
      connection,
      prefix,
      topics: TOPICS,
      framing: PLAIN_FRAMING,
      logger: NO_LOGGER,
    });
  });
  afterEach(async () => {
    await target.close();
    await records.close();
    await sqlite.destroy(medium);
    await removePrefix(prefix);
  });

  /** Records of several sizes and headers in each partition, the first of which are dropped. */
  async function fill(): Promise<{ readonly [topic: string]: readonly LogEntry[] }> {
    const source = await sqlite.open(medium);
    const keys = keyPerPartition();
    const dropped = 1_500;
    for (let n = 0; n < 40; n++) {
      const entries = keys.flatMap((key) =>
        Array.from({ length: 50 }, (_, i) => ({
          key,
          value: JSON.stringify({ n, i, text: 'ä'.repeat(i % 7 === 0 ? 500 : 3) }),
          headers: n % 2 === 0 ? {} : { 'workspace-id': key, n: String(n), name: 'grüße' },
        })),
      );
      await source.append(SOURCE, entries);
      await source.append(RECEIVED, entries);
    }
    await source.append(SOURCE, [{ key: keys[0] ?? '', value: `"${'x'.repeat(1_000_000)}"`, headers: {} }]);
    for (let partition = 0; partition < PARTITIONS - 1; partition++)
      await source.dropBelow(SOURCE, partition, dropped);
    const last = PARTITIONS - 1;
    await source.dropBelow(SOURCE, last, await source.end(SOURCE, last));
    const all = { [SOURCE]: await readAll(source, SOURCE), [RECEIVED]: await readAll(source, RECEIVED) };
    await source.close();
    return all;
  }

  async function copy(stored: StoredLog, { topic, partition, first, end }: StoredPartition): Promise<void> {
    const [oldest] = stored.records(topic, partition, first, 1);
    await records.fill(topic, partition, 0, first, oldest?.timestamp ?? Date.now());
    for (let at = first; at < end; ) {
      const some = stored.records(topic, partition, at, BATCH_BYTES);
      await records.append(topic, partition, some);
      at += some.length;
    }
    await target.dropBelow(topic, partition, first);
  }

  it('has each record under its offset, with its timestamp, after records dropped by retention', async () => {
    const expected = await fill();
    const stored = new StoredLog(medium.folder ?? '');
    await records.prepareTopics(true);
    await target.createTopics();
    const partitions = stored.partitions();
    expect(partitions.filter(({ first }) => first > 0)).toHaveLength(PARTITIONS);
    for (const one of partitions) await copy(stored, one);
    for (const { topic, partition, first, end } of partitions) {
      expect([await target.first(topic, partition), await target.end(topic, partition)]).toEqual([
        first,
        end,
      ]);
    }
    stored.close();
    // Positions, indexes and timestamps are those of the embedded log for every reader.
    for (const topic of [SOURCE, RECEIVED]) expect(await readAll(target, topic)).toEqual(expected[topic]);

    const altered = await target.alterTopics();
    expect(altered.join('\n')).toContain(
      `${prefix}${SOURCE}, message.timestamp.type: CreateTime -> LogAppendTime`,
    );
    expect(altered.join('\n')).toContain(`${prefix}${SOURCE}, retention.ms: -1 -> 3600000`);
    expect((await readAll(target, SOURCE))[0]).toEqual(expected[SOURCE]?.[0]);
    const [appended] = await target.append(SOURCE, [{ key: 'new', value: '1', headers: {} }]);
    const partition = partitionOf('new', PARTITIONS);
    expect(appended?.offset).toBe(
      partitions.find((one) => one.topic === SOURCE && one.partition === partition)?.end,
    );
  });

  it('lets stages go on at their positions, also within a record', async () => {
    const { [RECEIVED]: expected = [] } = await fill();
    const stored = new StoredLog(medium.folder ?? '');
    await records.prepareTopics(true);
    await target.createTopics();
    for (const one of stored.partitions()) if (one.topic === RECEIVED) await copy(stored, one);
    stored.close();
    const starts = Array.from({ length: PARTITIONS }, (_, partition) => ({
      stage: 'imported',
      topic: RECEIVED,
      partition,
      offset: 5 + partition,
      index: partition === 2 ? 0 : 7,
    }));
    // A stage that never ran begins with the first record.
    for (const _ of ['first', 'again']) await target.importPositions(starts);
    for (const { partition, offset } of starts)
      expect(await target.positionOf('imported', RECEIVED, partition)).toBe(offset);
    const isLeft = ({ position: { partition, offset, index } }: LogEntry) => {
      const start = starts[partition];
      if (start === undefined) return false;
      return offset > start.offset || (offset === start.offset && index >= start.index);
    };
    for (const [name, left] of [
      ['imported', expected.filter(isLeft)],
      ['fresh', expected],
    ] as const) {
      const got: LogEntry[] = [];
      const run = await target.run(
        batchStage(
          eachOf((entry) => void got.push(entry)),
          { name, reads: [{ topic: RECEIVED }] },
        ),
      );
      await eventually(() => got.length >= left.length, `${name} does not get its entries`, 60_000);
      await run.stop();
      const inOrder = (entries: readonly LogEntry[]) =>
        entries.toSorted(({ position: a }, { position: b }) => {
          return a.partition - b.partition || a.offset - b.offset || a.index - b.index;
        });
      expect(inOrder(got)).toEqual(inOrder(left));
    }
  });

  it('refuses a partition that something else writes to', async () => {
    await fill();
    const stored = new StoredLog(medium.folder ?? '');
    await records.prepareTopics(true);
    const first = stored.records(RECEIVED, 0, 0, 1);
    await target.append(RECEIVED, [{ key: keyPerPartition()[0] ?? '', value: '{}', headers: {} }]);
    await expect(records.append(RECEIVED, 0, first)).rejects.toThrow(OffsetTaken);
    stored.close();
  });
});
