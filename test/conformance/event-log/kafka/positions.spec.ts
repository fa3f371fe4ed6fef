import { type LogEntry, partitionOf } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { deleteTopics, withAdmin } from '../../../helpers/kafka.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, numbers, valuesOf } from '../suite/log-contents.ts';
import { batchStage, caughtUp, copyOf, copyStage, flowStage, runThrough } from '../suite/stages.ts';
import { type Installation, install, type LogLine } from './installation/installation.ts';

const PARTITIONS = 3;
const brokers = engines()?.kafkaBrokers ?? '';
/** A key of each partition. */
const KEYS = numbers(PARTITIONS).map((partition) => {
  for (let n = 0; ; n++) if (partitionOf(`key${n}`, PARTITIONS) === partition) return `key${n}`;
});

describe.skipIf(engines() === undefined)('positions that consumer groups lost', () => {
  let installed: Installation;
  beforeEach(async () => {
    installed = await install(brokers, PARTITIONS);
  });
  afterEach(() => installed.dispose());

  const nameOf = (name: string) => `${installed.prefix}${name}`;
  const copy = copyStage();
  const toEach = (count: number, from = 0) => KEYS.flatMap((key) => numbered(key, count, from));
  const sorted = (values: readonly unknown[]) => values.map(Number).sort((a, b) => a - b);
  /** The expected values when each key had these. */
  const ofEach = (values: readonly number[]) => sorted(values.flatMap((n) => KEYS.map(() => n)));
  const errors = (lines: readonly LogLine[]) => lines.filter(({ level }) => level === 'error');

  const loseGroup = () =>
    withAdmin(brokers, async (admin) => {
      await admin.deleteGroups([nameOf('stage')]);
    });

  /** As after an upgrade from a release that did not record positions. */
  async function forgetRecorded(): Promise<void> {
    await withAdmin(brokers, (admin) => deleteTopics(admin, [nameOf('stages.positions')]));
    const { log } = await installed.open();
    await log.createTopics();
    await log.close();
  }

  it('a deleted group sent everything again: stages go on where they were, with and without emissions', async () => {
    const before = await installed.open();
    await before.log.append(SOURCE, toEach(30));
    await runThrough(before.log, copy);
    const handled: LogEntry[] = [];
    const silent = flowStage(
      async (entry) => {
        handled.push(entry);
        return [];
      },
      { name: 'silent' },
    );
    await runThrough(before.log, silent);
    await before.log.close();
    await loseGroup();
    await withAdmin(brokers, (admin) => admin.deleteGroups([nameOf('silent')]));
    const { log, lines } = await installed.open();
    await log.append(SOURCE, toEach(4, 30));
    await runThrough(log, copy);
    await runThrough(log, silent);
    expect(sorted(await valuesOf(log, TARGET))).toEqual(ofEach(numbers(34)));
    expect(sorted(handled.map(({ value }) => value))).toEqual(ofEach(numbers(34)));
    expect(lines.filter(({ message }) => message.includes('has lost its position'))).toHaveLength(
      2 * PARTITIONS,
    );
  });

  it('positions lost before they were recorded stop the stage, not the others, until an operator sets them', async () => {
    const before = await installed.open();
    await before.log.append(SOURCE, toEach(7));
    await before.log.append('violations', toEach(5));
    await runThrough(before.log, copy);
    const other = copyStage({ name: 'other', reads: [{ topic: 'violations' }], writes: [TARGET] });
    await runThrough(before.log, other);
    await before.log.close();
    await loseGroup();
    await forgetRecorded();
    const { log, lines } = await installed.open();
    await log.append(SOURCE, toEach(2, 7));
    await log.append('violations', toEach(1, 100));
    const [run, running] = [await log.run(copy), await log.run(other)];
    await caughtUp(running);
    await eventually(() => errors(lines).length >= PARTITIONS, 'it does not say so');
    expect(errors(lines)[0]?.message).toMatch(/lost and nothing is recorded .*`tributary positions`/);
    expect(sorted(await valuesOf(log, TARGET))).toEqual(
      sorted([...ofEach(numbers(7)), ...ofEach(numbers(5)), ...ofEach([100])]),
    );
    for (const partition of numbers(PARTITIONS))
      await log.setPosition({ stage: 'stage', topic: SOURCE, partition }, 7);
    await caughtUp(run);
    await run.stop();
    await running.stop();
    expect(sorted(await valuesOf(log, TARGET))).toEqual(
      sorted([...ofEach(numbers(9)), ...ofEach(numbers(5)), ...ofEach([100])]),
    );
    await expect(log.setPosition({ stage: 'stage', topic: SOURCE, partition: 0 }, 0)).rejects.toThrow(
      'has the position',
    );
    const known = await log.positionsOf(['stage']);
    expect(known.map(({ stored, recorded, end }) => [stored, recorded === stored, end])).toEqual(
      numbers(PARTITIONS).map(() => [9, true, 9]),
    );
  });

  it('a partition that is taken over late in a new installation begins at its first record', async () => {
    const { log, lines } = await installed.open();
    await log.append(SOURCE, numbered(KEYS[0] ?? '', 20));
    await runThrough(log, copy);
    // The other partitions were empty and have a position. A stage added later has none, and no topic is
    // empty any more.
    await log.append(SOURCE, toEach(5, 20));
    await runThrough(
      log,
      batchStage(async ({ entries }) => entries.map((e) => copyOf(e)), { name: 'late' }),
    );
    expect(errors(lines)).toEqual([]);
    expect(await valuesOf(log, TARGET)).toHaveLength(20 + 20 + 5 * PARTITIONS);
  });
});
