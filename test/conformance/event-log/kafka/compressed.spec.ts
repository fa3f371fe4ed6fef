import { partitionOf } from '@tributary/core';
import kafkajs from 'kafkajs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { withAdmin } from '../../../helpers/kafka.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { numbered, readPartition } from '../suite/log-contents.ts';
import { batchStage, copyOf, eachOf, runThrough } from '../suite/stages.ts';
import { type Installation, install } from './installation/installation.ts';

const brokers = engines()?.kafkaBrokers ?? '';
const PARTITIONS = 2;
const { ConfigResourceTypes } = kafkajs;

/** Larger than one block of every codec, and both compressible and incompressible. */
const LARGE = JSON.stringify(Array.from({ length: 24_000 }, (_, n) => [n, Math.sin(n), 'a'.repeat(n % 20)]));

describe.skipIf(engines() === undefined)('topics that brokers compress', () => {
  let installed: Installation;
  beforeEach(async () => {
    installed = await install(brokers, PARTITIONS);
  });
  afterEach(() => installed.dispose());

  const nameOf = (topic: string) => `${installed.prefix}${topic}`;

  it.each(['gzip', 'snappy', 'lz4', 'zstd'])('with %s are read', async (codec) => {
    await withAdmin(brokers, (admin) =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [SOURCE, TARGET].map((topic) => ({
          type: ConfigResourceTypes.TOPIC,
          name: nameOf(topic),
          configEntries: [
            { name: 'compression.type', value: codec },
            { name: 'max.message.bytes', value: String(4 * 1024 * 1024) },
          ],
        })),
      }),
    );
    const { log } = await installed.open();
    const large = { key: 'k', value: LARGE, headers: {} };
    await log.append(SOURCE, [...numbered('k', 200), large, ...numbered('k', 3, 200)]);
    await log.append(SOURCE, numbered('k', 1, 203));
    const expected = [...numbered('k', 200), large, ...numbered('k', 4, 200)].map(({ value }) => value);
    const read = await readPartition(log, SOURCE, partitionOf('k', PARTITIONS));
    expect(read.map(({ value }) => value)).toEqual(expected);
    await runThrough(log, batchStage(eachOf((entry) => copyOf(entry))));
    expect(
      (await readPartition(log, TARGET, partitionOf('k', PARTITIONS))).map(({ value }) => value),
    ).toEqual(expected);
  });
});
