import { type DeliveryResult, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { entryOf, event, setUp, until } from './harness.ts';
import { openLog, runOn } from './on-log.ts';

const BACKLOG = 4_000;
const OK: DeliveryResult = { outcome: 'delivered' };

/** Two destinations, `a` and `b`, and deliveries to them as route makes them. */
function setUpPlaces(options: Parameters<typeof setUp>[0] = {}) {
  const set = setUp(options);
  for (const place of ['a', 'b']) {
    set.catalog.addDestination(place);
    set.catalog.addRule(`to-${place}`, place, { event_names: [place] });
  }
  const deliveriesTo = (place: string, count: number) =>
    set.run(
      'route',
      Array.from({ length: count }, (_, i) =>
        entryOf(
          TOPIC.accepted,
          i,
          event(`${place}${i}`, { event: place, properties: { text: 'x'.repeat(500) } }),
        ),
      ),
    );
  return { ...set, deliveriesTo };
}

it('a destination that answers slowly blocked all others of the slow lane: beyond its share it is put off', async () => {
  const { world, stages, deliveriesTo } = setUpPlaces({ deliveryWindowBytes: 1024 * 1024 });
  const delivered: string[] = [];
  world.deliver = async ({ destination_id, message_id }) => {
    if (destination_id === 'a') await new Promise((resolve) => setTimeout(resolve, 100));
    delivered.push(message_id);
    return OK;
  };
  const log = await openLog();
  await log.append(TOPIC.deliveriesSlow, [
    ...(await deliveriesTo('a', BACKLOG)),
    ...(await deliveriesTo('b', 20)),
  ]);
  await runOn(log, stages, ['deliver.slow']);
  await until(() => delivered.filter((id) => id.startsWith('b')).length === 20);
  expect(delivered.length - 20).toBeLessThan(BACKLOG / 4); // in one line with `a` they came after nearly all of it

  // Each of `a` was delivered or put off, without an attempt.
  const putOff = () => log.end('deliveries.retry.10s', 0);
  await until(async () => delivered.length - 20 + (await putOff()) === BACKLOG);
  const [again] = (await log.read('deliveries.retry.10s', 0, 0, { maxBytes: 1 })).entries;
  expect(JSON.parse(again?.value ?? '')).toMatchObject({ destination_id: 'a', attempts: [] });
  const [told] = (await log.read(TOPIC.outcomes, 0, 0, { maxBytes: 1 })).entries;
  expect(JSON.parse(told?.value ?? '')).toMatchObject({
    status: 'retrying',
    reason: 'its destination is slow',
  });
}, 30_000);

it('a call handed to the slow lane was made twice at a graceful stop: the slow lane that joined it finishes it', async () => {
  const { world, time, stages, deliveriesTo } = setUpPlaces();
  const release: (() => void)[] = [];
  world.deliver = () => new Promise((resolve) => release.push(() => resolve(OK)));
  const log = await openLog();
  const names = ['deliver', 'deliver.slow'];
  const runs = await runOn(log, stages, names);
  await log.append(TOPIC.deliveries, await deliveriesTo('a', 1));
  await until(() => release.length === 1);
  time.pass(501);
  // what comes behind it in the slow lane is under way: so it was joined
  await until(async () => (await log.end(TOPIC.deliveriesSlow, 0)) === 1);
  await log.append(TOPIC.deliveriesSlow, await deliveriesTo('b', 1));
  await until(() => release.length === 2);

  const stopped = Promise.all([...runs.values()].map((run) => run.stop()));
  await runs.get('deliver')?.ended;
  for (const go of release) go();
  await stopped;
  expect(release).toHaveLength(2);
  const lags = [...(await runOn(log, stages, names)).values()].map((run) => run.lag());
  expect((await Promise.all(lags)).flat()).toMatchObject([{ lag: 0 }, { lag: 0 }]);
  expect(release).toHaveLength(2);
}, 30_000);

it('a call under way when the stages stop is settled by the lane it began in', async () => {
  const { world, time, stages, deliveriesTo } = setUpPlaces();
  const release: (() => void)[] = [];
  world.deliver = () => new Promise((resolve) => release.push(() => resolve(OK)));
  const log = await openLog();
  const runs = await runOn(log, stages, ['deliver']);
  await log.append(TOPIC.deliveries, await deliveriesTo('a', 1));
  await until(() => release.length === 1);
  const stopped = runs.get('deliver')?.stop();
  time.pass(501);
  await new Promise((resolve) => setTimeout(resolve, 60)); // longer than patience looks away
  release[0]?.();
  await stopped;
  expect(await log.end(TOPIC.deliveriesSlow, 0)).toBe(0);
}, 30_000);
