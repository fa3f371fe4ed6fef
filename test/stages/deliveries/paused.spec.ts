import { TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp, topicsOf } from '../harness.ts';

const HOUR_MS = 3_600_000;

async function setUpPaused() {
  const set = setUp({ expiryMs: 24 * HOUR_MS });
  set.catalog.addDestination('place');
  set.catalog.addRule('rule', 'place');
  const [routed] = await set.run('route', [entryOf(TOPIC.accepted, 0, event('m'))]);
  const calls: string[] = [];
  set.world.deliver = ({ id }) => {
    calls.push(id);
    return { outcome: 'delivered' };
  };
  const pause = (paused: boolean) => set.catalog.add('destination.updated', 'place', { paused });
  return { ...set, pause, calls, routed };
}

describe('a paused destination', () => {
  it('gets nothing; its deliveries wait without an attempt, and are delivered once it is resumed', async () => {
    const { run, outcomeOf, pause, calls, routed } = await setUpPaused();
    pause(true);
    const deferred = await run('deliver', [handedOn(routed)]);
    expect(topicsOf(deferred)).toEqual([expect.stringMatching(/^deliveries\.retry\./)]);
    expect(outcomeOf(deferred[0])).toMatchObject({
      status: 'retrying',
      reason: 'the destination is paused',
      delivery: { attempts: [] },
    });
    expect(calls).toEqual([]);

    pause(false);
    const delivered = await run('deliver.retry', [handedOn(deferred[0])]);
    expect(outcomeOf(delivered[0])).toMatchObject({ status: 'delivered' });
    expect(calls).toHaveLength(1);
  });

  it('lets nothing expire, and waiting deliveries have all their time once it is resumed', async () => {
    const { run, outcomeOf, pause, routed, time, world } = await setUpPaused();
    pause(true);
    let waiting = handedOn(routed);
    for (let days = 0; days < 10; days++) {
      const [again] = await run(days === 0 ? 'deliver' : 'deliver.retry', [waiting]);
      expect(again?.topic).toMatch(/^deliveries\.retry\./);
      waiting = handedOn(again);
      time.pass(24 * HOUR_MS);
    }
    pause(false);
    world.deliver = () => ({ outcome: 'retry', reason: 'HTTP 503' });
    time.pass(-23 * HOUR_MS);
    // Its record is old by now: it is written anew, and the outcome beside it.
    const failed = await run('deliver.retry', [waiting]);
    expect(outcomeOf(failed[1])).toMatchObject({ status: 'retrying', reason: 'HTTP 503' });
  });

  it('holds what waited for a call when it was paused', async () => {
    const { run, pause, routed, calls } = await setUpPaused();
    const running = run('deliver', [handedOn(routed)]);
    pause(true);
    expect((await running)[0]?.topic).toMatch(/^deliveries\.retry\./);
    expect(calls).toEqual([]);
  });
});

describe('a destination that answered 410 Gone was posted to again and again', () => {
  async function setUpGone() {
    const set = await setUpPaused();
    set.world.deliver = ({ id }) => {
      set.calls.push(id);
      return { outcome: 'dead', reason: 'answered 410', status: 410 };
    };
    const destination = () => set.catalog.state.destination('place');
    const [again] = await set.run('deliver', [handedOn(set.routed)]);
    return { ...set, destination, again: handedOn(again) };
  }

  it('is paused, states why, and its deliveries wait with the one that met the 410', async () => {
    const { run, outcomeOf, destination, again, calls, pause, world } = await setUpGone();
    await expect.poll(() => destination()?.paused).toBe(true);
    expect(destination()).toMatchObject({
      paused_because: { reason: 'gone' },
      condition: { because: 'gone' },
    });
    const deferred = await run('deliver.retry', [again]);
    expect(outcomeOf(deferred[0])).toMatchObject({
      status: 'retrying',
      reason: 'the destination is paused: it answered 410 Gone',
      delivery: { attempts: [{ outcome: 'retry', status: 410 }] },
    });
    expect(calls).toHaveLength(1);

    world.deliver = () => ({ outcome: 'delivered' });
    pause(false);
    const [delivered] = await run('deliver.retry', [handedOn(deferred[0])]);
    expect(outcomeOf(delivered)).toMatchObject({ status: 'delivered' });
  });

  it('causes one alert', async () => {
    const { catalog, run, destination, routed } = await setUpGone();
    await run('deliver', [handedOn(routed)]);
    await expect.poll(() => destination()?.paused).toBe(true);
    await run('deliver', [handedOn(routed)]);
    expect(catalog.proposed.map(({ type }) => type)).toEqual(['destination.turned', 'destination.updated']);
    expect(catalog.proposed[0]).toMatchObject({
      data: { state: 'bad', because: 'gone', last_errors: [{ reason: 'answered 410', status: 410 }] },
    });
  });

  it('the response of a service to one event through the Segment pack paused all of it', async () => {
    const { run, outcomeOf, routed, catalog, world } = await setUpPaused();
    catalog.add('destination.updated', 'place', { type: 'segment-pushwoosh' });
    world.deliver = () => ({ outcome: 'dead', reason: 'push answered 410', status: 410 });
    const [dead] = await run('deliver', [handedOn(routed)]);
    expect(outcomeOf(dead)).toMatchObject({ status: 'dead', reason: 'push answered 410' });
    expect(catalog.proposed).toEqual([]);
    expect(catalog.state.destination('place')?.paused).toBeFalsy();
  });

  it('is left alone where it was changed meanwhile: it may be another place', async () => {
    const set = await setUpPaused();
    const [answer, come] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    set.world.deliver = async () => {
      come.resolve();
      await answer.promise;
      return { outcome: 'dead', reason: 'answered 410', status: 410 };
    };
    const under = set.run('deliver', [handedOn(set.routed)]);
    await come.promise;
    set.catalog.add('destination.updated', 'place', { name: 'elsewhere' });
    answer.resolve();
    expect(topicsOf(await under)[0]).toBe('deliveries.retry.10s');
    expect(set.catalog.proposed).toEqual([]);
    expect(set.catalog.state.destination('place')?.paused).toBeFalsy();
  });
});

describe('a destination whose service refuses its tokens', () => {
  it('is paused with one alert, its deliveries wait, and go out once it is connected again', async () => {
    const { run, outcomeOf, routed, catalog, world, calls } = await setUpPaused();
    const data = { tokens: { $sealed: 'k1.a.b' }, settings: {} };
    catalog.add('destination.connected', 'place', data);
    const reason = 'not sent: Google answered 400: invalid_grant';
    world.deliver = () => ({ outcome: 'retry', reason, disconnected: true });
    const [again] = await run('deliver', [handedOn(routed)]);
    const destination = () => catalog.state.destination('place');
    await expect.poll(() => destination()?.paused).toBe(true);
    expect(catalog.proposed.map(({ type }) => type)).toEqual([
      'destination.turned',
      'destination.disconnected',
    ]);
    expect(destination()).toMatchObject({
      paused_because: { reason: 'access_refused' },
      condition: { because: 'access_refused' },
      connection: { state: 'disconnected' },
    });
    expect(destination()?.connection?.tokens).toBeUndefined();
    const waiting = await run('deliver.retry', [handedOn(again)]);
    expect(outcomeOf(waiting[0])).toMatchObject({
      status: 'retrying',
      reason: 'the destination is paused: its service does not accept its tokens any more',
    });

    world.deliver = ({ id }) => {
      calls.push(id);
      return { outcome: 'delivered' };
    };
    catalog.add('destination.connected', 'place', data);
    const [delivered] = await run('deliver.retry', [handedOn(waiting[0])]);
    expect(outcomeOf(delivered)).toMatchObject({ status: 'delivered' });
    expect(calls).toHaveLength(1);
  });
});
