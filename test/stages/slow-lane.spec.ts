import { type DeliveryResult, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { entryOf, event, setUp, until } from './harness.ts';
import { openLog, runOn } from './on-log.ts';

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
