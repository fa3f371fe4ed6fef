import { type DeliveryResult, HEADER, type OutputRecord, retryTopic, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { entryOf, event, setUp, until } from '../harness.ts';
import { openLog, runOn } from '../on-log.ts';

const OK: DeliveryResult = { outcome: 'delivered' };

/** Two destinations, `a` and `b`, and deliveries to them as written by route. */
function setUpTwoDestinations(options: Parameters<typeof setUp>[0] = {}) {
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

it('a request moved to the slow queue was repeated at a graceful stop: the attached slow stage finishes it', async () => {
  const { world, time, stages, deliveriesTo } = setUpTwoDestinations();
  const release: (() => void)[] = [];
  world.deliver = () => new Promise((resolve) => release.push(() => resolve(OK)));
  const log = await openLog(10_000);
  const names = ['deliver', 'deliver.slow'];
  const runs = await runOn(log, stages, names);
  await log.append(TOPIC.deliveries, await deliveriesTo('a', 1));
  await until(() => release.length === 1);
  time.pass(501);
  // the next delivery in the slow queue is in flight, so the duplicate was attached to the first
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
});

it('a request in flight when the stages stop is settled by the stage that began it', async () => {
  const { world, time, stages, deliveriesTo } = setUpTwoDestinations();
  const release: (() => void)[] = [];
  world.deliver = () => new Promise((resolve) => release.push(() => resolve(OK)));
  const log = await openLog(10_000);
  const runs = await runOn(log, stages, ['deliver']);
  await log.append(TOPIC.deliveries, await deliveriesTo('a', 1));
  await until(() => release.length === 1);
  const stopped = runs.get('deliver')?.stop();
  time.pass(501);
  await new Promise((resolve) => setTimeout(resolve, 60)); // longer than patience looks away
  release[0]?.();
  await stopped;
  expect(await log.end(TOPIC.deliveriesSlow, 0)).toBe(0);
});

it('a slow destination with a backlog delayed all others in the slow queue: its deliveries are deferred', async () => {
  const { world, time, stages, deliveriesTo } = setUpTwoDestinations({ windowBytes: 60_000, maxRequests: 1 });
  const served = { a: 0, b: 0 };
  const open: { readonly at: number; readonly answer: () => void }[] = [];
  world.deliver = ({ event: { event: place } }) =>
    new Promise((resolve) => {
      served[place === 'a' ? 'a' : 'b'] += 1;
      open.push({ at: time.elapsed + 4_000, answer: () => resolve(OK) });
    });
  const log = await openLog();
  const runs = await runOn(log, stages, ['deliver', 'deliver.slow']);
  const pass = async () => {
    time.pass(50);
    for (const { at, answer } of open) if (at <= time.elapsed) answer();
    await new Promise((resolve) => setTimeout(resolve, 5));
  };
  // The pace of `a` is known before its backlog is read, at whatever speed this machine reads it.
  await log.append(TOPIC.deliveries, await deliveriesTo('a', 1));
  await until(async () => {
    await pass();
    const lags = await Promise.all([...runs.values()].map((run) => run.lag()));
    return served.a === 1 && lags.flat().every(({ lag }) => lag === 0);
  });
  // Ten seconds of `a` are a third of the window, and its backlog many windows; another owner's deliveries
  // follow.
  await log.append(TOPIC.deliveries, await deliveriesTo('a', 1_000));
  await log.append(TOPIC.deliveries, await deliveriesTo('b', 5));
  await until(async () => {
    await pass();
    return served.b === 5;
  });
  // In order it would have come after a thousand of `a`, at ten in four seconds.
  expect(served.a).toBeLessThan(200);
  // Those that are deferred before `b` is served may be committed after it.
  const deferred = async () => {
    const steps = ['1s', '10s', '1m', '10m', '1h'].map((label) => log.end(retryTopic(label), 0));
    return (await Promise.all(steps)).reduce((sum, count) => sum + count, 0);
  };
  await expect.poll(deferred).toBeGreaterThan(700);
  expect(await log.end(TOPIC.outcomes, 0)).toBe(0);
  const stopped = Promise.all([...runs.values()].map((run) => run.stop()));
  let isStopped = false;
  void stopped.then(() => {
    isStopped = true;
  });
  while (!isStopped) await pass();
});

it('a quick destination was idle until the scheduled times of its deferred deliveries, estimated while it was slow', async () => {
  const { world, time, stages, deliveriesTo } = setUpTwoDestinations();
  const served = new Set<string>();
  const open: { readonly at: number; readonly answer: () => void }[] = [];
  world.deliver = ({ event: { message_id: id } }) =>
    new Promise((resolve) => {
      served.add(id);
      open.push({ at: time.elapsed + 100, answer: () => resolve(OK) });
    });
  const log = await openLog();
  const deferred = (await deliveriesTo('a', 200)).map((outputRecord, n) => ({
    ...outputRecord,
    headers: { ...outputRecord.headers, [HEADER.scheduledAt]: `${time.now + n * 10_000}` },
  }));
  await log.append(retryTopic('1s'), deferred);
  await runOn(log, stages, ['deliver', 'deliver.slow', 'deliver.retry']);
  await until(async () => {
    time.pass(20);
    for (const { answer } of open.filter(({ at }) => at <= time.elapsed)) answer();
    open.splice(0, open.length, ...open.filter(({ at }) => at > time.elapsed));
    await new Promise((resolve) => setTimeout(resolve, 5));
    return served.size === 200;
  });
  const waiting = await Promise.all(['1s', '10s', '1m'].map((label) => log.end(retryTopic(label), 0)));
  expect(waiting).toEqual([200, 0, 0]);
});

it('deliveries of an idle destination waited behind 5,000 retries of another that were due in an hour', async () => {
  const { world, time, stages, deliveriesTo } = setUpTwoDestinations();
  const servedAfter: number[] = [];
  let startedAt = 0;
  const called = new Set<string>();
  world.deliver = ({ event: { event: place } }) => {
    called.add(place ?? '');
    servedAfter.push(performance.now() - startedAt);
    return OK;
  };
  const log = await openLog();
  const withHeader = (header: string, at: number) => (outputRecord: OutputRecord) => ({
    ...outputRecord,
    headers: { ...outputRecord.headers, [header]: String(at) },
  });
  const later = (await deliveriesTo('a', 5_000)).map(withHeader(HEADER.notBefore, time.now + 3_600_000));
  const deferred = (await deliveriesTo('b', 50)).map(withHeader(HEADER.scheduledAt, time.now + 12_000));
  await log.append(retryTopic('1s'), later);
  await runOn(log, stages, ['deliver', 'deliver.slow', 'deliver.retry']);
  await log.append(retryTopic('1s'), deferred);
  startedAt = performance.now();
  await until(() => servedAfter.length === 50);
  expect(called).toEqual(new Set(['b']));
  console.log(`behind 5,000 retries of another: ${Math.round(Math.max(...servedAfter))} ms`);
  expect(Math.max(...servedAfter)).toBeLessThan(5_000);
  await until(async () => (await log.end(retryTopic('1h'), 0)) === 5_000);
});

it('deliveries of a quick destination waited behind due retries of one that does not respond', async () => {
  const { world, time, stages, deliveriesTo } = setUpTwoDestinations();
  let served = 0;
  world.deliver = ({ event: { event: place } }) => {
    if (place === 'a') return new Promise(() => {});
    served += 1;
    return OK;
  };
  const log = await openLog();
  await log.append(retryTopic('1s'), await deliveriesTo('a', 2_000));
  await log.append(retryTopic('1s'), await deliveriesTo('b', 50));
  const runs = await runOn(log, stages, ['deliver', 'deliver.slow', 'deliver.retry']);
  const startedAt = time.elapsed;
  await until(async () => {
    time.pass(25);
    await new Promise((resolve) => setTimeout(resolve, 25));
    return served === 50;
  });
  console.log(`behind 2,000 due retries of a destination that hangs: ${time.elapsed - startedAt} ms`);
  expect(time.elapsed - startedAt).toBeLessThan(10_000);
  await Promise.all([...runs.values()].map((run) => run.stop()));
});
