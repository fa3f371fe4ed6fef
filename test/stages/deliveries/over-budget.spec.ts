import {
  type Delivery,
  type DeliveryOutcome,
  deadDeliveryKey,
  HEADER,
  MATCH,
  retryTopic,
  type StorageVerdict,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, STORED_HERE, setUp, topicsOf } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';

const OVER: StorageVerdict = {
  action: 'stop_output',
  budget: 'disk_share',
  used: 70_001,
  limit: 60_000,
  retryAfterMs: 1,
};

/** A workspace with 60 rules, of which `over` decides whether it is over a budget. */
function setUpOver() {
  const state: { over: StorageVerdict } = { over: OVER };
  const set = setUp({}, { budgets: { verdictOf: () => state.over, add() {} } });
  set.catalog.addDestination('place');
  set.catalog.addDestination('shut', { enabled: false });
  set.catalog.addTransformation('tx');
  set.catalog.addRule('left-out', 'place', { event_names: ['Other'] });
  set.catalog.addRule('closed', 'shut');
  set.catalog.addRule('first', 'place', { filter: 'event.properties.total > 5' });
  for (let n = 0; n < 30; n++)
    set.catalog.addRule(`rule${n}`, 'place', { filter: 'event.properties.total == 1' });
  for (let n = 30; n < 59; n++) set.catalog.addRule(`rule${n}`, 'place', { transformation_id: 'tx' });
  const accepted = (id: string, offset = 0) => entryOf(TOPIC.accepted, offset, event(id));
  return { ...set, state, accepted };
}

/** As the gateway redrives it. */
function redriven({ delivery, rules = [], rules_at, ...dead }: DeliveryOutcome, offset: number) {
  return entryOf(TOPIC.eventsSlow, offset, (delivery as Delivery).event, {
    [HEADER.workspaceId]: WORKSPACE,
    [HEADER.environment]: delivery.environment,
    [HEADER.redriveOf]: deadDeliveryKey({ delivery, ...dead }),
    [HEADER.redrives]: String(delivery.redrives + 1),
    [HEADER.rules]: [delivery.rule_id, ...rules].join(','),
    ...(rules_at === undefined
      ? { [HEADER.match]: MATCH.named }
      : { [HEADER.match]: MATCH.at, [HEADER.rulesAt]: String(rules_at) }),
    [HEADER.destinationId]: delivery.destination_id,
  });
}

const outcomeIn = (value = ''): DeliveryOutcome => JSON.parse(value);
const ruleOf = (value: string) => JSON.parse(value).rule_id ?? JSON.parse(value).delivery.rule_id;

describe('an event of a workspace over its budget became a delivery for each of its rules', () => {
  it('it becomes one dead delivery of a few hundred bytes, which names the budget and the time of the rules', async () => {
    const { run, accepted, notes, time } = setUpOver();
    const outputRecords = await run('route', [accepted('m')]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveriesDead]);
    const dead = outcomeIn(outputRecords[0]?.value);
    expect(dead).toMatchObject({
      status: 'dead',
      cause: 'over_budget',
      reason: 'the workspace is over its budget disk_share: 70001 of 60000 bytes',
      delivery: { rule_id: 'first', message_id: 'm' },
    });
    expect(dead.rules_at).toBe(time.now);
    expect(dead.rules).toBeUndefined();
    const { value = '', headers } = outputRecords[0] ?? {};
    const own = JSON.stringify(event('m')).length;
    expect(`${value}${JSON.stringify(headers)}`.length - own).toBeLessThan(1_000);
    expect(notes).toMatchObject([
      { rule: 'first', destination: 'place', measures: 'filtered/over_budget+dead/over_budget' },
    ]);
    // The commit may be repeated after a crash.
    expect(await run('route', [accepted('m')])).toEqual(outputRecords);
  });

  it('nothing is written where no rule may take it', async () => {
    const { run, accepted } = setUpOver();
    const other = { ...accepted('m'), value: JSON.stringify(event('m', { environment: 'development' })) };
    expect(await run('route', [other])).toEqual([]);
  });

  it('a redrive within the budget applies all rules of that time, each once, and no later one', async () => {
    const { run, accepted, state, catalog, time } = setUpOver();
    const [made] = await run('route', [accepted('m')]);
    time.pass(5_000);
    catalog.at = new Date(time.now).toISOString();
    catalog.addRule('made-later', 'place');
    state.over = undefined;
    const outputRecords = await run('route.slow', [redriven(outcomeIn(made?.value), 7)]);
    const deliveries = outputRecords.filter(({ topic }) => topic === TOPIC.deliveries);
    expect(deliveries.map(({ value }) => ruleOf(value)).sort()).toEqual(
      Array.from({ length: 59 }, (_, n) => `rule${n}`).sort(),
    );
    // The first rule does not take the event: its delivery, which was shown as retrying, is settled.
    const others = outputRecords.filter(({ topic }) => topic !== TOPIC.deliveries);
    expect(others.map(({ topic, value }) => [topic, ruleOf(value), outcomeIn(value).status])).toEqual([
      [TOPIC.outcomes, 'first', 'delivered'],
    ]);
  });

  it('a redrive while it is still over is one dead delivery again, and loses no rule', async () => {
    const { run, accepted, state } = setUpOver();
    const [made] = await run('route', [accepted('m')]);
    const first = outcomeIn(made?.value);
    const outputRecords = await run('route.slow', [redriven(first, 7)]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveriesDead]);
    const again = outcomeIn(outputRecords[0]?.value);
    expect(again).toMatchObject({ cause: 'over_budget', delivery: { id: first.delivery.id, redrives: 1 } });
    expect(again.rules_at).toBe(first.rules_at);
    state.over = undefined;
    const late = await run('route.slow', [redriven(again, 8)]);
    expect(late.filter(({ topic }) => topic === TOPIC.deliveries)).toHaveLength(59);
  });

  it('rules that were deleted before the redrive take the others along', async () => {
    const { run, accepted, state, catalog } = setUpOver();
    const [made] = await run('route', [accepted('m')]);
    for (const rule of ['first', 'rule3']) catalog.add('rule.deleted', rule, {});
    state.over = undefined;
    const outputRecords = await run('route.slow', [redriven(outcomeIn(made?.value), 7)]);
    expect(outputRecords.filter(({ topic }) => topic === TOPIC.deliveries)).toHaveLength(58);
    const dead = outputRecords.filter(({ topic }) => topic === TOPIC.deliveriesDead);
    expect(dead.map(({ value }) => [ruleOf(value), outcomeIn(value).reason])).toEqual([
      ['first', 'the rule was deleted'],
    ]);
  });

  it('a replayed event with many rules, and one that waits in the slow queue, are one dead delivery as well', async () => {
    const { run } = setUpOver();
    for (const [headers, standsFor] of [
      [{ [HEADER.rules]: 'rule1,rule2,rule40', [HEADER.replay]: 'replay' }, { rules: ['rule2', 'rule40'] }],
      [{ [HEADER.match]: MATCH.all, [HEADER.acceptedOffset]: '3' }, { rules_at: expect.any(Number) }],
    ] as const) {
      const outputRecords = await run('route.slow', [entryOf(TOPIC.eventsSlow, 1, event('m'), headers)]);
      expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveriesDead]);
      expect(outcomeIn(outputRecords[0]?.value)).toMatchObject(standsFor);
    }
  });
});

const isAsLarge = (bytes: number) => bytes >= JSON.stringify(event('m')).length;

describe('beyond its budget a workspace wrote on, by what its events did elsewhere than in route', () => {
  const HOUR_MS = 3_600_000;

  it('violations of an event are one record with their number', async () => {
    const { run, catalog, world } = setUpOver();
    catalog.addContract({ enforcement_mode: 'warn' });
    world.evaluate = () => ({
      outcome: 'warned',
      violations: Array.from({ length: 30 }, (_, n) => ({
        kind: 'type',
        path: `/properties/${'field'.repeat(40)}${n}`,
        message: 'must be string',
        action: 'warned',
      })),
    });
    const received = entryOf('events.production', 0, event('m'), {
      [HEADER.catalogPosition]: String(catalog.position),
    });
    const outputRecords = await run('validate', [received]);
    const recorded = outputRecords.filter(({ topic }) => topic === TOPIC.violations);
    expect(recorded.map(({ value }) => JSON.parse(value).message)).toEqual([
      '30 violations of this event are not recorded: the workspace is over its budget disk_share',
    ]);
    const bytes = outputRecords.reduce((sum, { value }) => sum + value.length, 0);
    expect(bytes).toBeLessThan(JSON.stringify(event('m')).length + 600);
  });

  it('deliveries to files on the same disk count with all their bytes, and wait once it is over', async () => {
    const { run, catalog, accepted, state, notes } = setUpOver();
    catalog.addDestination('files', { type: STORED_HERE });
    catalog.addRule('of-files', 'files');
    state.over = undefined;
    const made = (await run('route', [accepted('m')])).find(({ value }) => ruleOf(value) === 'of-files');
    notes.length = 0;
    await run('deliver', [handedOn(made)]);
    expect(notes).toContainEqual({ scope: WORKSPACE, received: 0, written: expect.toSatisfy(isAsLarge) });
    state.over = OVER;
    const [waiting] = await run('deliver', [handedOn(made)]);
    expect(waiting?.topic).toBe(retryTopic('1h'));
  });

  it('deliveries of a paused destination are rewritten once an hour, however often it is paused anew', async () => {
    const { run, catalog, accepted, state, time } = setUpOver();
    catalog.addDestination('other');
    catalog.addRule('of-other', 'other');
    state.over = undefined;
    const made = (await run('route', [accepted('m')])).find(({ value }) => ruleOf(value) === 'of-other');
    state.over = OVER;
    catalog.add('destination.updated', 'other', { paused: true });
    time.pass(1_000);
    const [waiting] = await run('deliver', [handedOn(made)]);
    expect(waiting?.topic).toBe(retryTopic('1h'));
  });

  it('a delivery whose event gets too old is not copied: it is dead, and is sent again when it is redriven', async () => {
    const { run, catalog, state, time, world } = setUpOver();
    catalog.addDestination('other');
    catalog.addRule('of-other', 'other');
    state.over = undefined;
    const large = entryOf(TOPIC.accepted, 0, event('m'));
    const made = (await run('route', [large])).find(({ value }) => ruleOf(value) === 'of-other');
    world.deliver = () => ({ outcome: 'retry', reason: 'answered 503', status: 503 });
    time.pass(2 * 24 * HOUR_MS);
    state.over = OVER;
    const [dead, ...others] = await run('deliver', [handedOn(made)]);
    expect(others).toEqual([]);
    expect(dead?.topic).toBe(TOPIC.deliveriesDead);
    expect(JSON.parse(dead?.value ?? '')).toMatchObject({
      status: 'dead',
      cause: 'expired',
      reason: 'expired: its event is too old to wait on, and the workspace is over its budget disk_share',
    });
  });
});
