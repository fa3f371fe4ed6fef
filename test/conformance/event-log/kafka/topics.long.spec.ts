import { LayoutMismatch, partitionOf } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { deleteTopics, withAdmin } from '../../../helpers/kafka.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, numbers, readPartition, valuesOf } from '../suite/log-contents.ts';
import { caughtUp, copyStage, runThrough } from '../suite/stages.ts';
import { type Installation, install, openQuickly, topicsOf } from './installation/installation.ts';

const PARTITIONS = 4;
const PARTITION = partitionOf('k', PARTITIONS);
const brokers = engines()?.kafkaBrokers ?? '';

describe.skipIf(engines() === undefined)('topics on Kafka', () => {
  let installed: Installation;
  beforeEach(async () => {
    installed = await install(brokers, PARTITIONS);
  });
  afterEach(() => installed.dispose());

  const copy = copyStage();
  const nameOf = (topic: string) => `${installed.prefix}${topic}`;

  async function makeAnew(topic: string): Promise<void> {
    await withAdmin(brokers, (admin) => deleteTopics(admin, [nameOf(topic)]));
    const { log } = await installed.open();
    await log.createTopics();
    await log.close();
  }

  async function dropBefore(offset: number): Promise<void> {
    await withAdmin(brokers, async (admin) => {
      await admin.fetchTopicMetadata({ topics: [nameOf(SOURCE)] });
      const partitions = [{ partition: PARTITION, offset: String(offset) }];
      await eventually(
        () =>
          admin.deleteTopicRecords({ topic: nameOf(SOURCE), partitions }).then(
            () => true,
            () => false,
          ),
        'its records are not deleted',
      );
    });
  }

  it('a topic that was created again is read from its beginning, and the log says so', async () => {
    const before = await installed.open();
    await before.log.append(SOURCE, numbered('k', 20));
    await runThrough(before.log, copy);
    await before.log.close();
    await makeAnew(SOURCE);
    // Kafka drops the positions of deleted topics; positions from another cluster, or a restored one, stay.
    await withAdmin(brokers, (admin) =>
      admin.setOffsets({
        groupId: nameOf('stage'),
        topic: nameOf(SOURCE),
        partitions: [{ partition: PARTITION, offset: '20' }],
      }),
    );
    const { log, lines } = await installed.open();
    await log.append(SOURCE, numbered('k', 5, 100));
    await runThrough(log, copy);
    expect(await valuesOf(log, TARGET)).toEqual([...numbers(20), ...numbers(5, 100)]);
    expect(lines.filter(({ level }) => level === 'error')).toEqual([
      expect.objectContaining({
        message: expect.stringContaining('created again'),
        fields: expect.objectContaining({ partition: PARTITION }),
      }),
    ]);
  });

  it('a topic that is deleted leaves the others alone', async () => {
    const { log } = await installed.open();
    await log.append(SOURCE, numbered('k', 5));
    await log.append('violations', numbered('k', 5));
    const run = await log.run(copy);
    await caughtUp(run);
    await withAdmin(brokers, (admin) => deleteTopics(admin, [nameOf('violations')]));
    await expect(log.append('violations', numbered('k', 1))).rejects.toMatchObject({ code: 'unavailable' });
    await eventually(async () => {
      await log.append(SOURCE, numbered('k', 5, 5));
      return true;
    }, 'appends to another topic fail');
    await eventually(async () => (await valuesOf(log, TARGET)).length === 10, 'the stage does not go on');
    await run.stop();
  });

  it('a stage that retention overtook continues at the first kept entry, and counts the missed ones', async () => {
    const { log, counted, lines } = await installed.open();
    await log.append(SOURCE, numbered('k', 10));
    await runThrough(log, copy);
    await log.append(SOURCE, numbered('k', 20, 10));
    const first = (await readPartition(log, SOURCE, PARTITION)).find(({ value }) => value === '15')?.position;
    await dropBefore(first?.offset ?? -1);
    await runThrough(log, copy);
    expect(await valuesOf(log, TARGET)).toEqual([...numbers(10), ...numbers(15, 15)]);
    expect(counted('tributary_stage_missed_records_total')).toBe(5);
    expect(lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });

  it('another number of partitions is refused', async () => {
    const log = await openQuickly({
      at: brokers,
      prefix: installed.prefix,
      topics: topicsOf(PARTITIONS + 1),
    });
    await expect(log.createTopics()).rejects.toThrow(LayoutMismatch);
    await expect(log.createTopics()).rejects.toThrow(`${nameOf(SOURCE)} has 4 partitions, not 5`);
    await log.close();
  });

  it('that others made, with a retention of theirs, lost the catalog without a word', async () => {
    const setting = (topic: string, entries: Readonly<Record<string, string>>) => ({
      type: 2,
      name: nameOf(topic),
      configEntries: Object.entries(entries).map(([name, value]) => ({ name, value })),
    });
    await withAdmin(brokers, (admin) =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [
          setting('catalog', { 'retention.ms': '86400000', 'flush.ms': '5000' }),
          setting(SOURCE, {
            'retention.ms': '7200000',
            'max.message.bytes': '1048588',
            'compression.type': 'gzip',
            'message.timestamp.type': 'CreateTime',
            'min.insync.replicas': '1',
          }),
        ],
      }),
    );
    const { log } = await installed.open();
    const expected = (topic: string, fault: string, losesCatalog: boolean) => ({
      message: `${nameOf(topic)}, ${fault}`,
      losesCatalog,
    });
    const retention = [
      expected('catalog', 'retention.ms: 86400000 instead of -1', true),
      expected(SOURCE, 'retention.ms: 7200000 instead of 3600000', false),
    ];
    const found = async () =>
      (await log.topicFaults()).map(({ message, losesCatalog }) => ({ message, losesCatalog }));
    await eventually(async () => (await found()).length > 1, 'nothing is found');
    expect(await found()).toEqual(expect.arrayContaining(retention));
    expect(await found()).toContainEqual(
      expected(SOURCE, 'max.message.bytes: 1048588 instead of 4194304', false),
    );
    expect(await found()).toContainEqual(
      expected(SOURCE, 'compression.type: gzip instead of producer', false),
    );
    expect(await found()).toContainEqual(
      expected(SOURCE, 'message.timestamp.type: CreateTime instead of LogAppendTime', false),
    );
    const altered = await log.alterTopics();
    expect(altered).toContain(`${nameOf('catalog')}, retention.ms: 86400000 -> -1`);
    await eventually(async () => (await found()).length === 0, 'it is not altered');
    expect(await log.alterTopics()).toEqual([]);
    // Other settings chosen by the operator stay.
    const { resources } = await withAdmin(brokers, (admin) =>
      admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: 2, name: nameOf('catalog'), configNames: ['flush.ms', 'retention.ms'] }],
      }),
    );
    expect(
      resources[0]?.configEntries.map(({ configName, configValue }) => [configName, configValue]).sort(),
    ).toEqual([
      ['flush.ms', '5000'],
      ['retention.ms', '-1'],
    ]);
  });
});
