import {
  type Delivery,
  type DeliveryOutcome,
  deadDeliveryKey,
  HEADER,
  type Headers,
  type LogEntry,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp, topicsOf } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';

/** A dead delivery, as in the history, and the entries that start its redrives. */
async function setUpDead() {
  const set = setUp();
  set.catalog.addDestination('place');
  set.catalog.addRule('rule', 'place');
  const posts: string[] = [];
  set.world.deliver = ({ id }) => {
    posts.push(id);
    return { outcome: 'dead', reason: 'HTTP 422' };
  };
  const [made] = await set.run('route', [entryOf(TOPIC.accepted, 0, event('m'))]);
  const [gone] = await set.run('deliver', [handedOn(made)]);
  return { ...set, posts, dead: set.outcomeOf(gone) };
}

/** As written by the gateway. */
function begun(outcome: DeliveryOutcome, offset: number, topic: string = TOPIC.deliveries): LogEntry {
  const delivery = outcome.delivery as Delivery;
  const redrives = delivery.redrives + 1;
  const headers: Headers = {
    [HEADER.workspaceId]: WORKSPACE,
    [HEADER.environment]: delivery.environment,
    [HEADER.messageId]: delivery.message_id,
    [HEADER.redriveOf]: deadDeliveryKey(outcome),
  };
  if (topic === TOPIC.deliveries) {
    const again: Delivery = { ...delivery, redrives };
    return entryOf(topic, offset, again, { ...headers, [HEADER.outcome]: 'retrying' });
  }
  const named = { [HEADER.rules]: delivery.rule_id, [HEADER.redrives]: String(redrives) };
  return entryOf(topic, offset, delivery.event, { ...headers, ...named });
}

describe('two redrives in quick succession sent a delivery twice', () => {
  it('the entry with the first dedupe claim is delivered, also when it is repeated', async () => {
    const { run, dead, posts } = await setUpDead();
    const [first, second] = [begun(dead, 11), begun(dead, 12)];
    const outputRecords = await run('deliver', [first, second]);
    expect(posts).toEqual([dead.delivery.id, dead.delivery.id]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveriesDead]);
    // As after a crash before the commit, with the other entry first.
    expect(topicsOf(await run('deliver', [second, first]))).toEqual([TOPIC.deliveriesDead]);
    expect(posts).toHaveLength(3);
  });

  it('a delivery that is dead again can be redriven again', async () => {
    const { run, outcomeOf, dead, posts, time } = await setUpDead();
    const [again] = await run('deliver', [begun(dead, 11)]);
    const next = outcomeOf(again);
    expect(next.delivery.redrives).toBe(1);
    await run('deliver', [begun(next, 12), begun(next, 13)]);
    expect(posts).toHaveLength(3);
    // Under the same id and number of redrives, as after a replay.
    time.pass(60_000);
    await run('deliver', [begun({ ...dead, at: new Date(time.now).toISOString() }, 14)]);
    expect(posts).toHaveLength(4);
  });

  it('later entries of the delivery make no second dedupe claim', async () => {
    const { run, dead, world } = await setUpDead();
    world.deliver = () => ({ outcome: 'retry', reason: 'HTTP 503' });
    const [retry] = await run('deliver', [begun(dead, 11)]);
    expect(retry?.headers).not.toHaveProperty(HEADER.redriveOf);
    expect(topicsOf(await run('deliver.retry', [handedOn(retry, 3)]))).toEqual([
      expect.stringContaining('deliveries.retry.'),
    ]);
    // Passed on with its mark by an older release without support for marks.
    const marked = handedOn({
      topic: 'deliveries.retry.10s',
      key: retry?.key ?? '',
      value: retry?.value ?? '',
      headers: { ...retry?.headers, [HEADER.redriveOf]: deadDeliveryKey(dead) },
    });
    expect(await run('deliver.retry', [marked])).toHaveLength(1);
  });

  it('a transformation is run again once, in the slow queue of route', async () => {
    const set = setUp();
    set.catalog.addDestination('place');
    set.catalog.addTransformation('tx');
    set.catalog.addRule('rule', 'place', { transformation_id: 'tx' });
    set.world.transform = () =>
      ({ ok: false, kind: 'error', message: 'x is not defined', logs: [] }) as never;
    const [gone] = await set.run('route', [entryOf(TOPIC.accepted, 0, event('m'))]);
    const dead: DeliveryOutcome = JSON.parse(gone?.value ?? '');
    const [first, second] = [7, 8].map((offset) => begun(dead, offset, TOPIC.eventsSlow));
    if (first === undefined || second === undefined) throw new Error('two redrives');
    const [again, ...others] = await set.run('route.slow', [first, second]);
    expect([again?.topic, others]).toEqual([TOPIC.deliveriesDead, []]);
    expect(await set.run('route.slow', [second])).toEqual([]);
    const next: DeliveryOutcome = JSON.parse(again?.value ?? '');
    set.world.transform = (_source, { event: given }) =>
      ({ ok: true, outputs: [given], logs: [], durationMs: 1, loadMs: 0 }) as never;
    const [delivery] = await set.run('route.slow', [begun(next, 9, TOPIC.eventsSlow)]);
    expect(delivery?.topic).toBe(TOPIC.deliveries);
    expect(delivery?.headers).not.toHaveProperty(HEADER.redriveOf);
    expect(JSON.parse(delivery?.value ?? '')).toMatchObject({ redrives: 2 });
  });

  it('each delivery of a repeated bulk redrive is made once', async () => {
    const { run, dead, posts } = await setUpDead();
    const entries = Array.from({ length: 40 }, (_, n) =>
      begun({ ...dead, delivery: { ...dead.delivery, id: `d${n % 20}` } }, 20 + n),
    );
    await run('deliver', entries);
    expect(posts).toHaveLength(1 + 20);
  });
});
