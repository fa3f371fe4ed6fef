import { randomBytes } from 'node:crypto';
import { type NewEntry, TooLarge } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { withAdmin } from '../../../helpers/kafka.ts';
import { RECEIVED, SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, numbers, readAll, valuesOf } from '../suite/log-contents.ts';
import { caughtUp, copyOf, copyStage, flowStage, poisoned, runThrough } from '../suite/stages.ts';
import { type Installation, install } from './installation/installation.ts';

const LONG = Boolean(process.env.TRIBUTARY_TEST_LONG);
const KIB = 1024;
const brokers = engines()?.kafkaBrokers ?? '';
const TOPIC_RESOURCE = 2;

/** A text of which compression leaves three quarters: the limit is on the compressed batch. */
const noise = (length: number) => randomBytes(length).toString('base64').slice(0, length);

describe.skipIf(engines() === undefined)('an operator lowering max.message.bytes', () => {
  let installed: Installation;
  beforeEach(async () => {
    installed = await install(brokers, 2);
  });
  afterEach(() => installed.dispose());

  async function lower(topic: string, bytes: number): Promise<void> {
    const name = `${installed.prefix}${topic}`;
    await withAdmin(brokers, (admin) =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [
          {
            type: TOPIC_RESOURCE,
            name,
            configEntries: [{ name: 'max.message.bytes', value: String(bytes) }],
          },
        ],
      }),
    );
    const { log } = await installed.open();
    await eventually(
      () =>
        log.append(topic, [{ key: 'k', value: `"${noise(2 * bytes)}"`, headers: {} }]).then(
          () => false,
          (error) => error instanceof TooLarge,
        ),
      'it is not lower',
    );
    await log.close();
  }

  const large = (n: number, kib: number): NewEntry => ({
    key: `large${n}`,
    value: JSON.stringify({ n, filling: noise(kib * KIB) }),
    headers: {},
  });
  const withoutFilling = (values: readonly unknown[]) =>
    values.filter((value) => typeof value === 'number').sort((a, b) => a - b);

  it('refused the calls of others together with the one that is too large', async () => {
    await lower(RECEIVED, 40 * KIB);
    const { log } = await installed.open({ appendTimeoutMs: 10_000 });
    const calls = numbers(60).map((n) =>
      log.append(RECEIVED, [
        n === 17 || n === 44 ? large(n, 70) : { key: `k${n}`, value: `${n}`, headers: { same: 'x' } },
      ]),
    );
    const outcomes = await Promise.allSettled(calls);
    const failed = outcomes.flatMap(({ status }, n) => (status === 'rejected' ? [n] : []));
    expect(failed).toEqual([17, 44]);
    for (const n of failed) await expect(calls[n]).rejects.toBeInstanceOf(TooLarge);
    // The limit is learned from the broker, and the remaining entries go on in groups that fit.
    await Promise.all(
      numbers(50, 100).map((n) => log.append(RECEIVED, [{ key: `k${n}`, value: `${n}`, headers: {} }])),
    );
    expect(withoutFilling(await valuesOf(log, RECEIVED))).toEqual(
      [...numbers(60), ...numbers(50, 100)].filter((n) => !failed.includes(n)),
    );
    for (const { position } of await readAll(log, RECEIVED)) expect(position.topic).toBe(RECEIVED);
  });

  const stages = {
    batch: copyStage(),
    flow: flowStage(async (entry) => [copyOf(entry)]),
  };
  it.each(Object.entries(stages))(
    'ended all processes in turn: a %s stage gives the guilty record up',
    async (_kind, stage) => {
      const { log, lines } = await installed.open({ appendTimeoutMs: 10_000 });
      const entries = numbers(40).flatMap((n) => (n % 16 === 5 ? [large(n, 90)] : numbered(`k${n}`, 1, n)));
      for (const entry of entries) await log.append(SOURCE, [entry]);
      await lower(TARGET, 50 * KIB);
      await runThrough(log, stage);
      const guilty = [5, 21, 37];
      expect(withoutFilling(await valuesOf(log, TARGET))).toEqual(
        numbers(40).filter((n) => !guilty.includes(n)),
      );
      const dead = await poisoned(log);
      expect(dead.map(({ error }) => error)).toEqual(
        guilty.map(() => expect.stringMatching(/takes no record of \d+ bytes/)),
      );
      const source = await readAll(log, SOURCE);
      const at = new Map(source.map(({ position, value }) => [JSON.stringify(position), value]));
      expect(
        dead
          .map(({ position }) => (JSON.parse(at.get(JSON.stringify(position)) ?? '{}') as { n: number }).n)
          .sort((a, b) => a - b),
      ).toEqual(guilty);
      expect(lines.some(({ message }) => message === 'a stage failed for good; the process ends')).toBe(
        false,
      );
    },
  );

  it('many small records that are too large together are written in smaller batches, and none is dead-lettered', async () => {
    const { log } = await installed.open({ appendTimeoutMs: 10_000 });
    const entries = numbers(120).map((n) => ({
      key: 'k',
      value: JSON.stringify({ n, filling: noise(3 * KIB) }),
      headers: {},
    }));
    await log.append(SOURCE, entries);
    await lower(TARGET, 20 * KIB);
    await runThrough(log, stages.batch);
    // Beside what was appended until the lower limit was in force.
    const copied = (await valuesOf(log, TARGET)).filter((value) => typeof value === 'object');
    expect(copied.map((value) => (value as { n: number }).n)).toEqual(numbers(120));
    expect(await poisoned(log)).toEqual([]);
  });

  it.runIf(LONG)(
    'a record that stages.dead does not take either is named there, and holds nothing up',
    async () => {
      const { log } = await installed.open({ appendTimeoutMs: 10_000 });
      await log.append(SOURCE, [large(1, 90), ...numbered('large1', 3, 10)]);
      for (const topic of [TARGET, 'stages.dead']) await lower(topic, 50 * KIB);
      const run = await log.run(stages.batch);
      await caughtUp(run);
      await run.stop();
      expect(withoutFilling(await valuesOf(log, TARGET))).toEqual([10, 11, 12]);
      expect(await poisoned(log)).toEqual([
        expect.objectContaining({ omitted: true, position: expect.objectContaining({ topic: SOURCE }) }),
      ]);
    },
  );
});
