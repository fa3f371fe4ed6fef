import { type Draft, HEADER, type LogEntry, type Rule, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp, singleOutput, topicsOf } from '../harness.ts';

/** A rule with failing deliveries, one of which waits for its second attempt. */
async function setUpRetrying(rule: Partial<Draft<Rule>> = {}, transformed?: string) {
  const set = setUp();
  const { catalog, world, run } = set;
  catalog.addDestination('place');
  catalog.addDestination('elsewhere');
  if (transformed !== undefined) {
    catalog.addTransformation('tx');
    world.transform = (_, input) =>
      singleOutput({ ...input, event: JSON.stringify({ ...JSON.parse(input.event), event: transformed }) });
  }
  const transformation_id = transformed === undefined ? null : 'tx';
  catalog.addRule('rule', 'place', { event_names: ['Order Placed'], transformation_id, ...rule });
  const posts: string[] = [];
  world.deliver = ({ id }) => {
    posts.push(id);
    return { outcome: 'retry', reason: 'answered 503', status: 503 };
  };
  const [made] = await run('route', [entryOf(TOPIC.accepted, 0, event('m'))]);
  const delivery = handedOn(made);
  const [again] = await run('deliver', [delivery]);
  return { ...set, posts, delivery, again: handedOn(again) };
}

const CHANGES: readonly (readonly [what: string, change: Partial<Draft<Rule>>, reason: string])[] = [
  ['disabled', { enabled: false }, 'the rule is disabled'],
  ['sent elsewhere', { destination_id: 'elsewhere' }, 'the rule forwards to another destination'],
  [
    'narrowed to an environment',
    { environments: ['development'] },
    'the rule does not take events of this environment',
  ],
  ['narrowed to a type', { event_types: ['page'] }, 'the rule does not take events of this type'],
  ['narrowed to a name', { event_names: ['Other'] }, 'the rule does not take events of this name'],
  [
    'given a filter',
    { filter: 'event.user_id == "nobody"' },
    'the filter of the rule does not take the event',
  ],
];

describe('a delivery under way went on although its rule was', () => {
  it.each(CHANGES)('%s', async (_, change, reason) => {
    for (const stage of ['deliver.retry', 'deliver', 'deliver.slow'] as const) {
      const { catalog, run, outcomeOf, posts, again, delivery } = await setUpRetrying();
      catalog.add('rule.updated', 'rule', change);
      const slow = { ...delivery, position: { ...delivery.position, topic: TOPIC.deliveriesSlow } };
      const entries = { 'deliver.retry': again, deliver: delivery, 'deliver.slow': slow };
      const [dead] = await run(stage, [entries[stage]]);
      expect(dead?.topic).toBe(TOPIC.deliveriesDead);
      expect(outcomeOf(dead)).toMatchObject({ status: 'dead', cause: 'rule', reason });
      expect(posts).toHaveLength(1);
    }
  });

  it('deleted', async () => {
    const { catalog, run, outcomeOf, posts, again } = await setUpRetrying();
    catalog.add('rule.deleted', 'rule', {});
    const [dead] = await run('deliver.retry', [again]);
    expect(outcomeOf(dead)).toMatchObject({ cause: 'rule', reason: 'the rule was deleted' });
    expect(posts).toHaveLength(1);
  });

  it('disabled while its destination was paused', async () => {
    const { catalog, run, outcomeOf, again } = await setUpRetrying();
    catalog.add('destination.updated', 'place', { paused: true });
    const [held] = await run('deliver.retry', [again]);
    catalog.add('rule.updated', 'rule', { enabled: false });
    const [dead] = await run('deliver.retry', [handedOn(held)]);
    expect(outcomeOf(dead)).toMatchObject({ cause: 'rule', reason: 'the rule is disabled' });
  });
});

describe('a delivery that waited for a call to begin was made although its rule was', () => {
  it.each(CHANGES)('%s', async (_, change, reason) => {
    const { catalog, run, outcomeOf, world } = setUp();
    catalog.addDestination('place', { max_concurrency: 1 });
    catalog.addDestination('elsewhere');
    catalog.addRule('rule', 'place', { event_names: ['Order Placed'] });
    const [begun, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const posts: string[] = [];
    world.deliver = async ({ message_id }) => {
      posts.push(message_id);
      begun.resolve();
      await answer.promise;
      return { outcome: 'delivered' };
    };
    const routed = ['first', 'second', 'third'].map((id, offset) =>
      entryOf(TOPIC.accepted, offset, event(id)),
    );
    const [first, second, third] = (await run('route', routed)).map(handedOn);
    if (first === undefined || second === undefined || third === undefined)
      throw new Error('three deliveries');
    const underWay = run('deliver', [first]);
    await begun.promise;
    const waiting = run('deliver', [second]);
    catalog.add('rule.updated', 'rule', { name: 'Renamed' });
    catalog.add('rule.updated', 'rule', change);
    answer.resolve();
    expect(await underWay).toEqual([]);
    const [dead] = await waiting;
    expect(outcomeOf(dead)).toMatchObject({ status: 'dead', cause: 'rule', reason });
    expect(posts).toEqual(['first']);
    expect(outcomeOf((await run('deliver', [third]))[0])).toMatchObject({ cause: 'rule', reason });
  });
});

describe('an event in the slow queue of route was delivered although its rule was', () => {
  it.each([...CHANGES.filter(([what]) => what !== 'sent elsewhere'), ['deleted', undefined, ''] as const])(
    '%s',
    async (_, change) => {
      const { catalog, run, world } = setUp({ slowTransformationMs: 0 });
      catalog.addDestination('place');
      catalog.addTransformation('tx');
      catalog.addRule('rule', 'place', { transformation_id: 'tx' });
      const never = Promise.withResolvers<never>();
      world.transform = () => never.promise;
      const [waiting] = await run('route', [entryOf(TOPIC.accepted, 0, event('m'))]);
      expect(waiting?.topic).toBe(TOPIC.eventsSlow);
      world.transform = (_source, input) => singleOutput(input);
      expect(topicsOf(await run('route.slow', [handedOn(waiting)]))).toEqual([TOPIC.deliveries]);
      if (change === undefined) catalog.add('rule.deleted', 'rule', {});
      else catalog.add('rule.updated', 'rule', change);
      expect(await run('route.slow', [handedOn(waiting)])).toEqual([]);
    },
  );
});

describe('a delivery under way continues', () => {
  const goesOn = async (
    change: (set: Awaited<ReturnType<typeof setUpRetrying>>) => void,
    transformed?: string,
  ) => {
    const set = await setUpRetrying({}, transformed);
    change(set);
    const outputRecords = await set.run('deliver.retry', [set.again]);
    expect(topicsOf(outputRecords)).toEqual(['deliveries.retry.1m']);
    expect(set.posts).toHaveLength(2);
  };

  it('where its rule still accepts the event', () =>
    goesOn(({ catalog }) => {
      catalog.add('rule.updated', 'rule', {
        name: 'Other',
        event_names: ['Order Placed', 'F'],
        event_types: ['track'],
      });
    }));

  it('where its rule was disabled and is enabled again', () =>
    goesOn(({ catalog }) => {
      catalog.add('rule.updated', 'rule', { enabled: false });
      catalog.add('rule.updated', 'rule', { enabled: true });
    }));

  it('where the new filter cannot say', () =>
    goesOn(({ catalog }) => catalog.add('rule.updated', 'rule', { filter: 'event.properties.none > 1' })));

  it('under the name that its transformation gave the event, which the rule never took', () =>
    goesOn(({ catalog }) => catalog.add('rule.updated', 'rule', { name: 'Other' }), 'renamed'));

  it('as a person asked: a replay of a disabled rule, and a redrive', async () => {
    const { catalog, run, posts, again, delivery } = await setUpRetrying();
    catalog.add('rule.updated', 'rule', { enabled: false });
    const event = JSON.parse(delivery.value).event;
    const named = { [HEADER.rules]: 'rule', [HEADER.replay]: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01' };
    const [replayed] = await run('route.slow', [entryOf(TOPIC.eventsSlow, 0, event, named)]);
    expect(topicsOf(await run('deliver', [handedOn(replayed)]))).toEqual(['deliveries.retry.10s']);
    const version = catalog.state.entity('rule', event.workspace_id, 'rule')?.version;
    const asked: LogEntry = {
      ...again,
      headers: { ...again.headers, [HEADER.ruleVersion]: String(version) },
    };
    await run('deliver.retry', [asked]);
    expect(posts).toHaveLength(3);
  });
});
