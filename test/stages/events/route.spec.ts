import { type DeliveryOutcome, HEADER, nameId, type SandboxResult, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, START, setUp, singleOutput, topicsOf, until } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';

function accepted(id: string, offset = 0, headers = {}) {
  return entryOf(TOPIC.accepted, offset, event(id), headers);
}

function setUpTransformed(options: Parameters<typeof setUp>[0] = {}) {
  const set = setUp(options);
  set.catalog.addDestination('place');
  set.catalog.addTransformation('tx');
  set.catalog.addRule('rule', 'place', { transformation_id: 'tx' });
  return set;
}

function failing(kind: 'threw' | 'timeout', message: string): SandboxResult {
  return { ok: false, kind, message, logs: [], durationMs: 1, loadMs: 0 };
}

function outputs(...events: readonly object[]): SandboxResult {
  return { ok: true, outputs: events.map((one) => JSON.stringify(one)), logs: [], durationMs: 1, loadMs: 0 };
}

describe('route', () => {
  it('makes one delivery for each enabled rule that matches, the same on every replay', async () => {
    const { run, catalog, time } = setUp();
    catalog.addDestination('place');
    catalog.addRule('all', 'place');
    catalog.addRule('named', 'place', { event_types: ['track'], event_names: ['Order Placed'] });
    catalog.addRule('other', 'place', { event_names: ['Other'] });
    catalog.addRule('off', 'place', { enabled: false });
    catalog.addRule('development', 'place', { environments: ['development'] });
    const outputRecords = await run('route', [accepted('m', 0, { [HEADER.traceparent]: 'trace' })]);
    expect(outputRecords.map(({ value }) => JSON.parse(value).rule_id)).toEqual(['all', 'named']);
    expect(JSON.parse(outputRecords[0]?.value ?? '')).toEqual({
      id: nameId('all', 'production:m:0'),
      workspace_id: WORKSPACE,
      environment: 'production',
      destination_id: 'place',
      rule_id: 'all',
      message_id: 'm',
      index: 0,
      created_at: new Date(START).toISOString(),
      attempts: [],
      redrives: 0,
      event: event('m'),
    });
    expect(outputRecords[0]).toMatchObject({
      topic: TOPIC.deliveries,
      key: 'place:u1',
      headers: { [HEADER.catalogPosition]: String(catalog.position), [HEADER.traceparent]: 'trace' },
    });
    time.now += 60_000;
    expect(await run('route', [accepted('m', 0, { [HEADER.traceparent]: 'trace' })])).toEqual(outputRecords);
  });

  it('makes no deliveries for a destination that is disabled', async () => {
    const { run, catalog } = setUp();
    catalog.addDestination('place', { enabled: false });
    catalog.addRule('rule', 'place');
    expect(await run('route', [accepted('m')])).toEqual([]);
  });

  it('delivered what the producer excluded from a destination: it makes nothing for it', async () => {
    const { run, catalog, world } = setUpTransformed();
    world.transform = () => outputs(event('m'));
    catalog.addDestination('other', { name: 'The Other' });
    catalog.addRule('plain', 'other');
    const sent = (integrations: object, offset: number) => ({ ...event('m'), integrations, offset });
    const entries = [
      { All: false, 'The Other': {} },
      { place: false, 'The Other': false },
      { All: true },
    ].map((integrations, at) => entryOf(TOPIC.accepted, at, sent(integrations, at)));
    const outputRecords = await run('route', entries);
    const pairs = outputRecords
      .map(({ value }) => JSON.parse(value))
      .map((made) => [made.rule_id, made.event.offset]);
    expect(pairs).toEqual([
      ['plain', 0],
      ['plain', 2],
      ['rule', undefined],
    ]);
  });

  it('makes a delivery of each output, none of a dropped event', async () => {
    const { run, world } = setUpTransformed();
    world.transform = (_source, { event: text, context }) => {
      const given = JSON.parse(text);
      expect(JSON.parse(context)).toEqual({
        workspace_id: WORKSPACE,
        rule_id: 'rule',
        rule_name: 'rule',
        environment: 'production',
        contract: { outcome: 'warned', id: 'c', version: 7 },
      });
      return given.message_id === 'drop' ? outputs() : outputs(given, { ...given, event: 'Second' });
    };
    const warned = {
      [HEADER.outcome]: 'warned',
      [HEADER.contractId]: 'c',
      [HEADER.contractVersion]: '7',
    };
    const outputRecords = await run('route', [accepted('m', 0, warned), accepted('drop', 1, warned)]);
    const deliveries = outputRecords.map(({ value }) => JSON.parse(value));
    expect(deliveries.map(({ id }) => id)).toEqual([
      nameId('rule', 'production:m:0'),
      nameId('rule', 'production:m:1'),
    ]);
    expect(deliveries[1]).toMatchObject({ index: 1, event: { message_id: 'm', event: 'Second' } });
  });

  it('never delivers an event untransformed: its failure is a dead delivery that holds it', async () => {
    const { run, world } = setUpTransformed();
    world.transform = () => failing('threw', 'total is undefined');
    const [dead, ...rest] = await run('route', [accepted('m')]);
    expect(rest).toEqual([]);
    expect(dead?.topic).toBe(TOPIC.deliveriesDead);
    expect(JSON.parse(dead?.value ?? '') as DeliveryOutcome).toMatchObject({
      status: 'dead',
      cause: 'transformation',
      reason: 'threw: total is undefined',
      delivery: { id: nameId('rule', 'production:m:0'), attempts: [], event: event('m') },
    });
  });

  it('a failure lost the verdict of the contract of its event: it keeps that, also when a redrive fails again', async () => {
    const { run, world } = setUpTransformed();
    world.transform = () => failing('threw', 'not yet');
    const judged = {
      [HEADER.outcome]: 'omitted',
      [HEADER.contractId]: 'c',
      [HEADER.contractVersion]: '7',
    };
    const failed = [
      ...(await run('route', [accepted('m', 0, judged)])),
      ...(await run('route.slow', [
        entryOf(TOPIC.eventsSlow, 0, event('m'), {
          ...judged,
          [HEADER.rules]: 'rule',
          [HEADER.redrives]: '1',
        }),
      ])),
    ];
    const contract = { outcome: 'omitted', id: 'c', version: 7 };
    expect(failed.map(({ value }) => JSON.parse(value))).toMatchObject([{ contract }, { contract }]);
    const [unevaluated] = await run('route', [accepted('m', 0, { [HEADER.outcome]: 'accepted' })]);
    expect(JSON.parse(unevaluated?.value ?? '')).not.toHaveProperty('contract');
  });

  it('sets a transformation that keeps failing to error, and runs it no more', async () => {
    const { run, world, catalog } = setUpTransformed();
    let runs = 0;
    world.transform = () => {
      runs += 1;
      return failing('threw', 'no such field');
    };
    await run(
      'route',
      Array.from({ length: 20 }, (_, i) => accepted(`m${i}`, i)),
    );
    await until(() => catalog.proposed.length > 0);
    expect(catalog.proposed).toMatchObject([
      { type: 'transformation.updated', expected_version: 1, by: 'stage:route', data: { status: 'error' } },
    ]);
    expect(catalog.state.transformation('tx')).toMatchObject({
      status: 'error',
      last_error: 'no such field',
    });
    const [dead] = await run('route', [accepted('later', 20)]);
    expect(JSON.parse(dead?.value ?? '').reason).toContain('in error: no such field');
    expect(runs).toBe(20);
  });

  it('a conflict about a failing transformation is final: someone changed it meanwhile', async () => {
    const { run, world, catalog } = setUpTransformed();
    world.transform = () => {
      if (catalog.state.transformation('tx')?.version === 1)
        catalog.add('transformation.updated', 'tx', { name: 'fixed' });
      return failing('timeout', 'slow');
    };
    const entries = Array.from({ length: 40 }, (_, i) => accepted(`m${i}`, i));
    await run('route', entries);
    await until(() => catalog.proposed.length > 0);
    expect(catalog.proposed).toHaveLength(1);
    expect(catalog.state.transformation('tx')?.status).toBe('active');
  });

  it('passes entries above their share to the slow queue, with the remaining rules', async () => {
    const { run, world, catalog, time } = setUpTransformed();
    catalog.addRule('plain', 'place');
    const release: (() => void)[] = [];
    world.transform = (_source, input) =>
      new Promise((resolve) => release.push(() => resolve(singleOutput(input))));
    const first = run('route', [accepted('m1', 0)]);
    await until(() => release.length === 1);
    time.pass(501);
    expect(await first).toHaveLength(2);
    const outputRecords = await run('route', [accepted('m2', 1)]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveries, TOPIC.eventsSlow]);
    expect(outputRecords[1]).toMatchObject({ headers: { [HEADER.rules]: 'rule' } });
    release[0]?.();

    world.transform = (_source, input) => singleOutput(input);
    const slow = await run('route.slow', [handedOn(outputRecords[1])]);
    expect(slow.map(({ topic, value }) => [topic, JSON.parse(value).rule_id])).toEqual([
      [TOPIC.deliveries, 'rule'],
    ]);
  });

  it('runs a redriven event through its rule again, under its old id', async () => {
    const { run, catalog, world } = setUpTransformed();
    const redriven = entryOf(TOPIC.eventsSlow, 0, event('m'), {
      [HEADER.rules]: 'rule',
      [HEADER.redrives]: '2',
    });
    const [delivery] = await run('route.slow', [redriven]);
    expect(JSON.parse(delivery?.value ?? '')).toMatchObject({
      id: nameId('rule', 'production:m:0'),
      redrives: 2,
    });

    world.transform = () => outputs();
    const [dropped] = await run('route.slow', [redriven]);
    expect(dropped?.topic).toBe(TOPIC.outcomes);
    expect(JSON.parse(dropped?.value ?? '')).toMatchObject({
      status: 'delivered',
      reason: 'dropped by its transformation',
    });

    catalog.add('destination.updated', 'place', { enabled: false });
    const [dead] = await run('route.slow', [redriven]);
    expect(dead?.topic).toBe(TOPIC.deliveriesDead);
  });

  it('a redriven event whose rule was deleted showed as retrying for ever: it is dead again', async () => {
    const { run, catalog } = setUpTransformed();
    catalog.add('rule.deleted', 'rule', {});
    const redriven = (headers: Record<string, string>) =>
      run('route.slow', [
        entryOf(TOPIC.eventsSlow, 0, event('m'), {
          [HEADER.rules]: 'rule',
          [HEADER.redrives]: '1',
          ...headers,
        }),
      ]);
    const [dead] = await redriven({ [HEADER.destinationId]: 'place' });
    expect(dead?.topic).toBe(TOPIC.deliveriesDead);
    expect(JSON.parse(dead?.value ?? '')).toMatchObject({
      status: 'dead',
      cause: 'transformation',
      reason: 'the rule was deleted',
      delivery: {
        id: nameId('rule', 'production:m:0'),
        destination_id: 'place',
        rule_id: 'rule',
        redrives: 1,
      },
    });
    const [unknown] = await redriven({});
    expect(JSON.parse(unknown?.value ?? '')).toMatchObject({ reason: 'the rule was deleted' });
  });

  it('skips a rule of the slow queue that was deleted since', async () => {
    const { run, catalog } = setUpTransformed();
    catalog.add('rule.deleted', 'rule', {});
    const entry = entryOf(TOPIC.eventsSlow, 0, event('m'), { [HEADER.rules]: 'rule' });
    expect(await run('route.slow', [entry])).toEqual([]);
  });
});
