import { HEADER, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp, topicsOf, until } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';

async function setUpDelivery(options: Parameters<typeof setUp>[0] = {}) {
  const set = setUp(options);
  set.catalog.addDestination('place');
  set.catalog.addRule('rule', 'place');
  const delivery = async (id: string, offset = 0) => {
    const [outputRecord] = await set.run('route', [entryOf(TOPIC.accepted, offset, event(id))]);
    return handedOn(outputRecord, offset);
  };
  return { ...set, delivery };
}

describe('deliver', () => {
  it('leaves no trace of a delivery that succeeds at once', async () => {
    const { run, delivery } = await setUpDelivery();
    expect(await run('deliver', [await delivery('m')])).toEqual([]);
  });

  it('an event that was never sent was delivered at the first attempt: it is unwanted', async () => {
    const { run, outcomeOf, delivery, world, history } = await setUpDelivery();
    const reason = 'not sent: no action takes it';
    world.deliver = () => ({ outcome: 'unwanted', reason });
    const unwanted = await run('deliver', [await delivery('m1')]);
    expect(topicsOf(unwanted)).toEqual([TOPIC.outcomes]);
    expect(outcomeOf(unwanted[0])).toMatchObject({
      status: 'unwanted',
      reason,
      delivery: { attempts: [] },
    });

    await run('history', [handedOn(unwanted[0], 0)]);
    const page = await history.list({ kind: 'delivery', workspaceId: WORKSPACE, limit: 10 });
    expect(page.entries).toMatchObject([{ facets: { status: 'unwanted' } }]);
  });

  it('an answer of 2xx that a vendor gave to the first attempt was not kept', async () => {
    const { run, outcomeOf, delivery, world } = await setUpDelivery();
    world.deliver = () => ({ outcome: 'delivered', status: 202, response: 'queued', recorded: true });
    const [delivered] = await run('deliver', [await delivery('m')]);
    expect(outcomeOf(delivered)).toMatchObject({
      status: 'delivered',
      delivery: { attempts: [{ outcome: 'delivered', status: 202, response: 'queued' }] },
    });
  });

  it('a retry that succeeds is recorded with every attempt', async () => {
    const { run, outcomeOf, delivery, world, history } = await setUpDelivery();
    world.deliver = () => ({ outcome: 'retry', reason: 'HTTP 503', status: 503 });
    const failed = await run('deliver', [await delivery('m')]);
    expect(topicsOf(failed)).toEqual(['deliveries.retry.10s']);

    world.deliver = () => ({ outcome: 'delivered', status: 200 });
    const [delivered] = await run('deliver.retry', [handedOn(failed[0])]);
    expect(outcomeOf(delivered)).toMatchObject({
      status: 'delivered',
      delivery: { attempts: [{ outcome: 'retry', status: 503 }, { outcome: 'delivered' }] },
    });

    await run('history', [handedOn(failed[0], 0), handedOn(delivered, 1)]);
    const page = await history.list({ kind: 'delivery', workspaceId: WORKSPACE, limit: 10 });
    expect(page.entries).toMatchObject([{ facets: { status: 'delivered', destination_id: 'place' } }]);
  });

  it('a delivery put off by an open circuit is recorded when its first attempt succeeds', async () => {
    const { run, outcomeOf, delivery, world, time } = await setUpDelivery({
      breaker: {
        consecutiveFailures: 1,
        failureRatio: 1,
        minimumCalls: 100,
        windowMs: 1_000,
        coolDownMs: 1_000,
      },
    });
    world.deliver = () => ({ outcome: 'retry', reason: 'ECONNREFUSED' });
    await run('deliver', [await delivery('m1', 0)]);
    const putOff = await run('deliver', [await delivery('m2', 1)]);
    expect(outcomeOf(putOff[0])).toMatchObject({
      status: 'retrying',
      reason: 'circuit open',
      delivery: { attempts: [] },
    });

    time.pass(10_000);
    world.deliver = () => ({ outcome: 'delivered' });
    const [delivered] = await run('deliver.retry', [handedOn(putOff[0])]);
    expect(outcomeOf(delivered)).toMatchObject({ status: 'delivered' });
  });

  it('ends the delivery when the destination is deleted or disabled', async () => {
    const { run, outcomeOf, delivery, catalog } = await setUpDelivery();
    const entry = await delivery('m');
    catalog.add('destination.updated', 'place', { enabled: false });
    const [disabled] = await run('deliver', [entry]);
    expect(disabled?.topic).toBe(TOPIC.deliveriesDead);
    expect(outcomeOf(disabled).reason).toBe('the destination is disabled');

    catalog.add('rule.updated', 'rule', { enabled: false });
    catalog.add('destination.deleted', 'place', {});
    const [gone] = await run('deliver', [entry]);
    expect(outcomeOf(gone)).toMatchObject({
      cause: 'destination',
      reason: 'the destination was deleted',
    });
  });

  it('waits for a catalog that knows the destination as route did', async () => {
    const { run, delivery, catalog } = await setUpDelivery();
    const entry = await delivery('m');
    catalog.position -= 1;
    await expect(run('deliver', [entry])).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('hands a slow destination on as it came, and its slow group delivers', async () => {
    const { run, delivery, world, time } = await setUpDelivery();
    const release: (() => void)[] = [];
    world.deliver = () => new Promise((resolve) => release.push(() => resolve({ outcome: 'delivered' })));
    const hanging = run('deliver', [await delivery('m1', 0)]);
    await until(() => release.length === 1);
    time.pass(501);
    const entry = await delivery('m2', 1);
    const [slow] = await run('deliver', [entry]);
    expect(slow).toEqual({
      topic: TOPIC.deliveriesSlow,
      key: entry.key,
      value: entry.value,
      headers: entry.headers,
    });
    expect(topicsOf(await hanging)).toEqual([TOPIC.deliveriesSlow]);
    const slowly = run('deliver.slow', [handedOn(slow)]);
    release[0]?.();
    await until(() => release.length === 2);
    release[1]?.();
    expect(await slowly).toEqual([]);
  });

  it('a redriven delivery is recorded however it ends', async () => {
    const { run, outcomeOf, delivery } = await setUpDelivery();
    const entry = await delivery('m');
    const value = JSON.stringify({ ...JSON.parse(entry.value), redrives: 1 });
    const [told] = await run('deliver', [{ ...entry, value }]);
    expect(outcomeOf(told)).toMatchObject({ status: 'delivered', delivery: { redrives: 1 } });
  });

  it('throws for an invalid delivery, so that it alone is dead-lettered', async () => {
    const { run } = await setUpDelivery();
    const wrong = entryOf(TOPIC.deliveries, 0, { id: 'd' }, { [HEADER.catalogPosition]: '0' });
    await expect(run('deliver', [wrong])).rejects.toMatchObject({ code: 'invalid_input' });
  });
});
