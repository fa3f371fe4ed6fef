import { type DeliveryOutcome, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp, topicsOf } from './harness.ts';

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

const outcomeIn = (value: string | undefined) => JSON.parse(value ?? '') as DeliveryOutcome;

describe('a paused destination', () => {
  it('gets nothing; its deliveries wait without an attempt, and are delivered once it goes on', async () => {
    const { run, pause, calls, routed } = await setUpPaused();
    pause(true);
    const held = await run('deliver', [handedOn(routed)]);
    expect(topicsOf(held)[1]).toBe(TOPIC.outcomes);
    expect(held[0]?.topic).toMatch(/^deliveries\.retry\./);
    expect(outcomeIn(held[1]?.value)).toMatchObject({
      status: 'retrying',
      reason: 'the destination is paused',
      delivery: { attempts: [] },
    });
    expect(calls).toEqual([]);

    pause(false);
    const delivered = await run('deliver.retry', [handedOn(held[0])]);
    expect(outcomeIn(delivered[0]?.value)).toMatchObject({ status: 'delivered' });
    expect(calls).toHaveLength(1);
  });

  it('lets nothing expire, and what waited has all its time once it goes on', async () => {
    const { run, pause, routed, time, world } = await setUpPaused();
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
    const failed = await run('deliver.retry', [waiting]);
    expect(outcomeIn(failed[1]?.value)).toMatchObject({ status: 'retrying', reason: 'HTTP 503' });
  });

  it('holds what waited for a call when it was paused', async () => {
    const { run, pause, routed, calls } = await setUpPaused();
    const running = run('deliver', [handedOn(routed)]);
    pause(true);
    expect((await running)[0]?.topic).toMatch(/^deliveries\.retry\./);
    expect(calls).toEqual([]);
  });
});
