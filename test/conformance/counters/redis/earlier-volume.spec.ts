import { NO_LOGGER } from '@tributary/core';
import { openRedisCounters } from '@tributary/infra';
import { expect, it, onTestFinished } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { command, removeKeys } from '../../../helpers/redis.ts';
import { batch, DAY_MS, HOUR_MS, increment, thisHour, WORKSPACE_ID } from '../suite/harness.ts';

it.skipIf(!engines())('has the numbers of release 0.2.0 after an upgrade, none of them twice', async () => {
  const url = engines()?.redisUrl ?? '';
  const prefix = freshPrefix();
  onTestFinished(() => removeKeys(url, prefix));
  const counters = await openRedisCounters({ url, prefix, clock: Date.now, logger: NO_LOGGER });
  onTestFinished(() => counters.close());
  const set = (...args: [string, ...string[]]) => command(url, ...args);
  const day = (hour: number) => Math.floor(hour / DAY_MS);
  const field = (hour: number, name: string) => `${((hour % DAY_MS) / HOUR_MS).toString(36)}pt${name}`;
  const count = (partition: number, hour: number, name: string, by: number) =>
    set(
      'HINCRBY',
      `{${prefix}v:events.accepted/${partition}}c:${day(hour)}:${WORKSPACE_ID}`,
      field(hour, name),
      String(by),
    );
  const before = thisHour() - 30 * HOUR_MS;
  await counters.apply(batch(0, [increment({ name: 'both', count: 10 })]));
  await set('DEL', `{${prefix}f}volume:${thisHour()}:${WORKSPACE_ID}`); // which 0.2.0 does not write
  for (const partition of [0, 1]) {
    await set('SADD', `${prefix}v:partitions`, `events.accepted/${partition}`);
    await count(partition, before, 'before', 2);
    await count(partition, thisHour(), 'both', 6);
    await set('ZADD', `{${prefix}v:events.accepted/${partition}}uses`, String(partition), 'write');
  }
  await set('ZADD', `${prefix}v:touched`, '7', 'api');
  await set('HINCRBY', `${prefix}v:r:${day(before)}:${WORKSPACE_ID}:t`, `${before}:runs`, '5');

  await counters.apply(
    batch(1, [increment({ name: 'both', count: 5 })], { keyUses: [{ keyId: 'new', at: 1 }] }),
  );
  await counters.addRuns([
    { workspaceId: WORKSPACE_ID, transformationId: 't', hour: before, counts: { runs: 1, errors: 1 } },
  ]);
  const hours = { workspaceId: WORKSPACE_ID, fromHour: before, toHour: thisHour() };
  expect(
    (await counters.volume(hours)).map(({ eventName, hour, count: of }) => [eventName, hour, of]),
  ).toEqual([
    ['before', before, 4],
    ['both', thisHour(), 15],
  ]);
  expect(await counters.runs({ ...hours, transformationId: 't' })).toEqual([
    { hour: before, counts: { runs: 6, errors: 1 } },
  ]);
  expect(await counters.lastUsed(['write', 'api', 'new', 'none'])).toEqual(
    new Map([
      ['write', 1],
      ['api', 7],
      ['new', 1],
    ]),
  );
});

it.skipIf(!engines())(
  'counts were overwritten by a redrive of release 0.2.0 that had read them before',
  async () => {
    const url = engines()?.redisUrl ?? '';
    const prefix = freshPrefix();
    onTestFinished(() => removeKeys(url, prefix));
    const counters = await openRedisCounters({ url, prefix, clock: Date.now, logger: NO_LOGGER });
    onTestFinished(() => counters.close());
    const versions: unknown[] = [];
    for (const from of [0, 1]) {
      await counters.apply(batch(from, [increment({ name: 'both' })]));
      versions.push(await command(url, 'GET', `{${prefix}f}version`));
    }
    // That redrive writes only if the version is still the one that it read the counts at.
    expect(versions).toEqual(['1', '2']);
  },
);
