import { HEADER, type LogEntry, MATCH, type OutputRecord, TOPIC } from '@tributary/core';
import { describe, expect, it, vi } from 'vitest';
import { entryOf, event, handedOn, setUp, topicsOf } from '../harness.ts';
import { contractOf } from '../memory-catalog.ts';

const RECEIVED = 'events.production';
const QUIET = '00000000-0000-4000-8000-00000000aaaa';

const CONTRACT = contractOf();

const idsOf = (outputRecords: readonly OutputRecord[]) =>
  outputRecords.map(
    ({ topic, value }) => `${topic} ${(JSON.parse(value) as { message_id: string }).message_id}`,
  );
const handed = (outputRecords: readonly OutputRecord[]): readonly LogEntry[] =>
  outputRecords.map((outputRecord, offset) => handedOn(outputRecord, offset));

describe('validate, with a workspace whose contract is slow', () => {
  function setUpCostly() {
    const set = setUp();
    set.catalog.add('contract.created', CONTRACT.id, CONTRACT);
    set.world.evaluate = () => {
      set.time.pass(3);
      return { outcome: 'accepted', violations: [] };
    };
    const headers = { [HEADER.catalogPosition]: String(set.catalog.position) };
    const costly = (count: number, from = 0) =>
      Array.from({ length: count }, (_, n) => entryOf(RECEIVED, from + n, event(`n${from + n}`), headers));
    return { ...set, costly };
  }
  const quiet = (offset: number) => entryOf(RECEIVED, offset, event(`q${offset}`, { workspace_id: QUIET }));

  it('events of one workspace delayed those of all others: beyond its share they go to the slow queue', async () => {
    const { run, time, costly } = setUpCostly();
    const began = time.elapsed;
    const outputRecords = await run('validate', [quiet(0), ...costly(80, 1), quiet(81)]);
    expect(time.elapsed - began).toBeLessThan(100);
    const slow = outputRecords.filter(({ topic }) => topic === TOPIC.receivedSlow);
    expect(slow.length).toBeGreaterThan(60);
    expect(idsOf(outputRecords)).toEqual([
      'events.accepted q0',
      ...costly(80, 1).map(
        (_, n) => `${n < 80 - slow.length ? TOPIC.accepted : TOPIC.receivedSlow} n${n + 1}`,
      ),
      'events.accepted q81',
    ]);
    const judged = await run('validate.slow', handed(slow));
    expect(idsOf(judged)).toEqual(slow.map((_, n) => `events.accepted n${81 - slow.length + n}`));
    expect(judged[0]?.headers).toMatchObject({
      [HEADER.contractId]: CONTRACT.id,
      [HEADER.outcome]: 'accepted',
    });
  });

  it('the violations of an event cost the stages behind validate more than validate itself', async () => {
    const { run, world, costly } = setUpCostly();
    const violation = { kind: 'type', path: '/a', message: 'not a text', action: 'warned' } as const;
    world.evaluate = () => ({ outcome: 'warned', violations: Array(20).fill(violation) });
    const outputRecords = await run('validate', [quiet(0), ...costly(60, 1)]);
    const slow = outputRecords.filter(({ topic }) => topic === TOPIC.receivedSlow);
    expect(slow.length).toBeGreaterThan(30);
  });

  it('an event moved to the slow queue is evaluated once, with any repetition and order of its copies', async () => {
    const { run, time, costly } = setUpCostly();
    const batch = [quiet(0), ...costly(80, 1)];
    const once = await run('validate', batch);
    // A crash before the commit: the batch is dispatched again, and this time all of it goes to the slow
    // queue.
    const again = await run('validate', batch);
    const bySlow = again.filter(({ topic }) => topic === TOPIC.receivedSlow);
    expect(bySlow.length).toBeGreaterThan(once.filter(({ topic }) => topic === TOPIC.receivedSlow).length);
    // A copy that arrives once the workspace is back in the quick queue, before the slow queue is done.
    time.pass(60_000);
    const copies = costly(2, 79).map((entry, n) => ({
      ...entry,
      position: { ...entry.position, offset: 900 + n },
    }));
    // The verdict on events in the slow queue is still open, so a copy that is evaluated first takes the
    // dedupe claim.
    const early = await run('validate', copies);
    const isSlow = ({ topic }: { readonly topic: string }) => topic === TOPIC.receivedSlow;
    const judged = await run('validate.slow', handed(bySlow));
    expect(idsOf([...judged, ...early.filter((outputRecord) => !isSlow(outputRecord))]).toSorted()).toEqual(
      costly(80, 1)
        .map((_, n) => `events.accepted n${n + 1}`)
        .toSorted(),
    );
    expect(early.some((outputRecord) => !isSlow(outputRecord))).toBe(true);
    // The slow queue is dispatched again after a crash, with the same result.
    expect(await run('validate.slow', handed(bySlow))).toEqual(judged);
    // Copies that were each sent to the slow queue: the first one wins.
    expect(
      await run(
        'validate.slow',
        handed(bySlow).map((entry) => ({
          ...entry,
          headers: { ...entry.headers, [HEADER.receivedPosition]: `${RECEIVED}/0/5000/0` },
        })),
      ),
    ).toEqual([]);
  });

  it('bytes of an event were counted as processed while it waited: the stage that decides about it counts them, once', async () => {
    const { run, costly, notes } = setUpCostly();
    const received = () =>
      notes.filter((note) => typeof note === 'object' && 'received' in note).map(({ received }) => received);
    const entries = costly(60, 1);
    const slow = (await run('validate', [quiet(0), ...entries])).filter(
      ({ topic }) => topic === TOPIC.receivedSlow,
    );
    await run('validate.slow', handed(slow));
    const bytes = [quiet(0), ...entries].reduce((sum, { key, value }) => sum + key.length + value.length, 0);
    expect(slow.length).toBeGreaterThan(0);
    expect(received().length).toBeGreaterThan(2);
    // The key of a record in the slow queue is longer.
    const sum = received().reduce((all, one) => all + one, 0);
    expect(sum).toBeGreaterThanOrEqual(bytes);
    expect(sum).toBeLessThan(1.2 * bytes);
  });

  it('the slow queue evaluates as of the catalog position of the event', async () => {
    const { run, catalog, costly } = setUpCostly();
    const outputRecords = await run('validate', [quiet(0), ...costly(60, 1)]);
    const slow = handed(outputRecords.filter(({ topic }) => topic === TOPIC.receivedSlow));
    catalog.add('contract.updated', CONTRACT.id, { ...CONTRACT, status: 'archived' });
    const [judged] = await run('validate.slow', slow.slice(0, 1));
    expect(judged?.headers).toMatchObject({ [HEADER.contractVersion]: '1' });
  });
});

describe('route, with a workspace whose filters are slow', () => {
  const list = Array.from({ length: 700 }, (_, n) => n);
  const costly = 'event.properties.list.exists(x, x == -7)';

  function setUpCostly(rules = 400) {
    const set = setUp();
    set.catalog.addDestination('place');
    for (let n = 0; n < rules; n++)
      set.catalog.addRule(`rule${String(n).padStart(4, '0')}`, 'place', { filter: costly });
    set.catalog.addRule('unfiltered', 'place');
    return set;
  }
  const accepted = (offset: number, fields: object = {}) =>
    entryOf(TOPIC.accepted, offset, event(`m${offset}`, { properties: { list }, ...fields }));
  const quiet = (offset: number) => accepted(offset, { workspace_id: QUIET });

  it('a thousand filters delayed the events of all others: they are evaluated up to a budget, the rest is one dead delivery', async () => {
    const { run } = setUpCostly(1_000);
    const outputRecords = await run('route', [accepted(0)]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveriesDead, TOPIC.deliveries]);
    const [dead, delivered] = outputRecords.map(({ value }) => JSON.parse(value));
    expect(dead).toMatchObject({ status: 'dead', cause: 'filter_not_evaluated' });
    expect(dead.reason).toMatch(
      /^filter not evaluated: the filters of the rules of this workspace take too much work for this event; nor 9\d\d later rules$/,
    );
    expect(delivered.rule_id).toBe('unfiltered');
    expect(await run('route', [accepted(0)])).toEqual(outputRecords);
  });

  it('events beyond the share go to the slow queue unmatched, with the same result there', async () => {
    const { run } = setUpCostly();
    await run('route', [quiet(0)]);
    const first = await run('route', [accepted(1)]);
    const rest = await run(
      'route',
      Array.from({ length: 50 }, (_, n) => accepted(2 + n)),
    );
    const slow = rest.filter(({ topic }) => topic === TOPIC.eventsSlow);
    expect(slow.length).toBeGreaterThan(30);
    expect(slow[0]?.headers).toMatchObject({ [HEADER.match]: MATCH.all });
    expect(slow[0]?.headers).not.toHaveProperty(HEADER.rules);
    const [entry] = handed(slow).slice(-1);
    if (entry === undefined) throw new Error('nothing was sent on');
    const there = await run('route.slow', [entry]);
    const shape = (outputRecords: readonly OutputRecord[]) =>
      outputRecords.map(({ topic, value }) => {
        const { delivery, ...outcome } = JSON.parse(value);
        return [topic, outcome.rule_id ?? delivery.rule_id, outcome.reason, outcome.cause];
      });
    expect(shape(there)).toEqual(shape(first));
    expect(topicsOf(await run('route', [quiet(60)]))).toEqual([]);
  });

  it('a large event was copied into the slow queue: its record refers to it', async () => {
    const { run } = setUpCostly();
    const properties = { list, text: 'x'.repeat(20_000) };
    await run('route', [quiet(0)]);
    await run('route', [accepted(1)]);
    const large = Array.from({ length: 50 }, (_, n) => accepted(2 + n, { properties }));
    const slow = (await run('route', large)).filter(({ topic }) => topic === TOPIC.eventsSlow);
    expect(slow.length).toBeGreaterThan(30);
    for (const { value, headers } of slow) {
      expect(value.length).toBeLessThan(300);
      expect(JSON.parse(value).event_at.position).toContain(
        `${TOPIC.accepted}/0/${headers[HEADER.acceptedOffset]}`,
      );
    }
  });

  it('a redrive evaluates the rules that were not evaluated, up to its own budget', async () => {
    const { run } = setUpCostly(120);
    const redriven = (rule: string, match: string) =>
      entryOf(TOPIC.eventsSlow, 0, event('m', { properties: { list } }), {
        [HEADER.rules]: rule,
        [HEADER.redrives]: '1',
        [HEADER.match]: match,
      });
    const [dead] = await run('route', [accepted(0)]);
    const first: string = JSON.parse(dead?.value ?? '').delivery.rule_id;
    const outputRecords = await run('route.slow', [redriven(first, MATCH.from)]);
    const outcomes = outputRecords.map(({ topic, value }) => [topic, JSON.parse(value)] as const);
    expect(outcomes[0]).toMatchObject([
      TOPIC.outcomes,
      {
        status: 'delivered',
        reason: 'its rule does not take the event',
        delivery: { rule_id: first, redrives: 1 },
      },
    ]);
    expect(outcomes[1]).toMatchObject([TOPIC.deliveriesDead, { cause: 'filter_not_evaluated' }]);
    const next = Number(outcomes[1]?.[1].delivery.rule_id.slice(4));
    expect(next).toBeGreaterThan(Number(first.slice(4)) + 10);
    const last = await run('route.slow', [redriven('rule0115', MATCH.from)]);
    expect(topicsOf(last)).toEqual([TOPIC.outcomes]);
  });

  it('a redrive of rules that were not evaluated sent the event again by a later rule without a filter', async () => {
    const { run, catalog } = setUpCostly(60);
    const [dead, delivered] = await run('route', [accepted(0)]);
    expect(JSON.parse(delivered?.value ?? '').rule_id).toBe('unfiltered');
    const { rule_id } = JSON.parse(dead?.value ?? '').delivery;
    const redriven = entryOf(TOPIC.eventsSlow, 0, event('m0', { properties: { list } }), {
      [HEADER.rules]: rule_id,
      [HEADER.redrives]: '1',
      [HEADER.match]: MATCH.from,
    });
    catalog.add('rule.updated', rule_id, { filter: null });
    const again = await run('route.slow', [redriven]);
    expect(
      again.filter(({ topic }) => topic === TOPIC.deliveries).map(({ value }) => JSON.parse(value).rule_id),
    ).toEqual([rule_id]);
  });

  it('a rule that exceeds the budget alone left the later rules to two dead deliveries, and to both redrives', async () => {
    const { run, catalog } = setUpCostly(0);
    const long = { properties: { list: Array.from({ length: 15_000 }, (_, n) => n) } };
    catalog.addRule('z1', 'place', { filter: Array.from({ length: 4 }, () => costly).join(' || ') });
    catalog.addRule('z2', 'place', { filter: 'event.event != "none"' });
    const [dead] = await run('route', [accepted(0, long)]);
    const { delivery, reason } = JSON.parse(dead?.value ?? '{}');
    expect([delivery?.rule_id, reason]).toEqual(['z1', expect.stringContaining('nor 1 later rule')]);
    const redriven = entryOf(TOPIC.eventsSlow, 0, event('m0', long), {
      [HEADER.rules]: 'z1',
      [HEADER.redrives]: '1',
      [HEADER.match]: MATCH.from,
    });
    const again = await run('route.slow', [redriven]);
    expect(again.map(({ value }) => JSON.parse(value))).toMatchObject([
      { reason, delivery: { rule_id: 'z1', redrives: 1 } },
    ]);
  });
});

describe('route, with a workspace of many rules', () => {
  function setUpRules(rules: number) {
    const set = setUp();
    set.catalog.addDestination('place');
    for (let n = 0; n < rules; n++) set.catalog.addRule(`rule${String(n).padStart(4, '0')}`, 'place');
    return set;
  }
  const accepted = (offset: number, fields: object = {}) =>
    entryOf(TOPIC.accepted, offset, event(`m${offset}`, fields));
  const events = (count: number) => Array.from({ length: count }, (_, n) => accepted(1 + n));

  it.each([
    [130, true],
    [8, false],
  ])(
    'whose %d deliveries of an event cost the stages behind route more than route itself',
    async (rules, isBeyond) => {
      const { run } = setUpRules(rules);
      await run('route', [accepted(0, { workspace_id: QUIET })]);
      const slow = (await run('route', events(60))).filter(({ topic }) => topic === TOPIC.eventsSlow);
      expect(slow.length > 40).toBe(isBeyond);
      if (!isBeyond) expect(slow).toEqual([]);
    },
  );

  it('held the thread until all of them were applied to an event: others get it in between', async () => {
    const { run, catalog, time } = setUpRules(200);
    const [ruleMs, entity] = [0.1, catalog.state.entity.bind(catalog.state)];
    let [inThisTurn, most, isOver] = [0, 0, false];
    const turn = () => {
      inThisTurn = 0;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    vi.spyOn(catalog.state, 'entity').mockImplementation((...asked: Parameters<typeof entity>) => {
      time.elapsed += ruleMs;
      most = Math.max(most, ++inThisTurn);
      return entity(...asked);
    });
    expect(await run('route', [accepted(0)])).toHaveLength(200);
    isOver = true;
    expect(most * ruleMs).toBeLessThan(4);
  });

  it('whose deliveries were made at once in the slow queue too: they leave the thread to others', async () => {
    const { run } = setUpRules(130);
    const entry = entryOf(TOPIC.eventsSlow, 0, event('m'), { [HEADER.match]: MATCH.all });
    const began = performance.now();
    expect(await run('route.slow', [entry])).toHaveLength(130);
    expect(performance.now() - began).toBeGreaterThan(35);
  });
});

describe('a filter that fails', () => {
  const failing = { filter: 'event.properties.coupon.size() > 3' };

  function setUpFailing() {
    const set = setUp();
    set.catalog.addDestination('place');
    set.catalog.addRule('rule', 'place', failing);
    return set;
  }
  const redriven = (properties: object) =>
    entryOf(TOPIC.eventsSlow, 0, event('m', { properties: { ...properties } }), {
      [HEADER.rules]: 'rule',
      [HEADER.redrives]: '1',
      [HEADER.match]: MATCH.named,
    });

  it('was only counted: its event is a dead delivery with the reason', async () => {
    const { run } = setUpFailing();
    const outputRecords = await run('route', [entryOf(TOPIC.accepted, 0, event('m'))]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveriesDead]);
    expect(JSON.parse(outputRecords[0]?.value ?? '')).toMatchObject({
      status: 'dead',
      cause: 'filter_failed',
      reason: 'filter: No such key: coupon',
      delivery: { rule_id: 'rule', destination_id: 'place', event: event('m') },
    });
  });

  it('is evaluated again by a redrive: the delivery is made, settled, or dead again', async () => {
    const { run } = setUpFailing();
    const [delivered] = await run('route.slow', [redriven({ coupon: 'SPRING' })]);
    expect(delivered?.topic).toBe(TOPIC.deliveries);
    expect(JSON.parse(delivered?.value ?? '')).toMatchObject({ redrives: 1, rule_id: 'rule' });
    const [settled] = await run('route.slow', [redriven({ coupon: 'x' })]);
    expect(JSON.parse(settled?.value ?? '')).toMatchObject({
      status: 'delivered',
      delivery: { redrives: 1 },
    });
    const [dead] = await run('route.slow', [redriven({})]);
    expect(dead?.topic).toBe(TOPIC.deliveriesDead);
    expect(JSON.parse(dead?.value ?? '')).toMatchObject({
      cause: 'filter_failed',
      delivery: { redrives: 1 },
    });
  });

  it('causes no dead delivery for a disabled destination', async () => {
    const { run, catalog } = setUp();
    catalog.addDestination('place', { enabled: false });
    catalog.addRule('rule', 'place', failing);
    expect(await run('route', [entryOf(TOPIC.accepted, 0, event('m'))])).toEqual([]);
  });

  it('causes far fewer dead deliveries of one event than a thousand failing rules', async () => {
    const { run, catalog } = setUp();
    catalog.addDestination('place');
    for (let n = 0; n < 1_000; n++) catalog.addRule(`rule${n}`, 'place', failing);
    const outputRecords = await run('route', [entryOf(TOPIC.accepted, 0, event('m'))]);
    expect(outputRecords.length).toBeGreaterThan(10);
    expect(outputRecords.length).toBeLessThan(60);
    expect(JSON.parse(outputRecords.at(-1)?.value ?? '')).toMatchObject({ cause: 'filter_not_evaluated' });
  });
});
