import {
  type CanonicalEvent,
  type ContractVerdict,
  countedEvent,
  countRecords,
  HEADER,
  type Headers,
  type LogEntry,
  type SandboxResult,
  type StageNote,
  Tally,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp, until } from '../harness.ts';
import { contractOf } from '../memory-catalog.ts';
import { openLog, runOn } from '../on-log.ts';

const RECEIVED = 'events.production';
const CONTRACT = contractOf();
const RECEIVED_AT = Date.parse('2026-01-01T10:00:00.000Z');

/** The sums of notes, by rule and measures. */
function sums(notes: readonly StageNote[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const { value } of countRecords([Tally.of(notes)])) {
    for (const [, , , , , , rule, , , measures, count] of JSON.parse(value).cells) {
      const key = rule === '' ? measures : `${rule} ${measures}`;
      found[key] = (found[key] ?? 0) + count;
    }
  }
  return found;
}

function accepted(
  id: string,
  offset = 0,
  fields: Partial<CanonicalEvent> = {},
  headers: Headers = {},
): LogEntry {
  return entryOf(TOPIC.accepted, offset, event(id, fields), headers);
}

function verdict(outcome: ContractVerdict['outcome'], action: 'warned' | 'blocked'): ContractVerdict {
  return { outcome, violations: [{ kind: 'type', path: '/total', message: 'not a number', action }] };
}

describe('validate counts', () => {
  const entries = (ids: readonly string[], headers: Headers) =>
    ids.map((id, offset) => entryOf(RECEIVED, offset, event(id, { source_id: 's1' }), headers));

  it('each event once: received, and a duplicate, rejected or accepted', async () => {
    const { run, notes, world, catalog } = setUp();
    catalog.add('contract.created', CONTRACT.id, CONTRACT);
    world.evaluate = ({ message_id }) => {
      if (message_id === 'bad') return verdict('rejected', 'blocked');
      return message_id === 'odd' ? verdict('warned', 'warned') : { outcome: 'accepted', violations: [] };
    };
    const headers = { [HEADER.keyId]: 'k1', [HEADER.catalogPosition]: String(catalog.position) };
    await run('validate', entries(['a', 'a', 'bad', 'bad', 'odd'], headers));
    expect(sums(notes)).toEqual({
      'received+accepted': 1,
      'received+duplicate': 2,
      [`received+rejected/${CONTRACT.id}/type`]: 1,
      'received+accepted+warned/warned': 1,
    });
    expect(notes[0]).toMatchObject({
      event: {
        kind: { source: 's1', key: 'k1', type: 'track', name: 'Order Placed' },
        receivedAt: RECEIVED_AT,
      },
    });
  });
});

describe('route counts', () => {
  it('for each enabled rule that an event matched it, or why not', async () => {
    const { run, notes, catalog } = setUp();
    catalog.addDestination('place');
    catalog.addDestination('closed', { enabled: false });
    catalog.addRule('all', 'place');
    catalog.addRule('closed rule', 'closed');
    catalog.addRule('named', 'place', { event_names: ['Other'] });
    catalog.addRule('typed', 'place', { event_types: ['page'] });
    catalog.addRule('development', 'place', { environments: ['development'] });
    catalog.addRule('filtered', 'place', { filter: 'event.properties.total > 1' });
    catalog.addRule('off', 'place', { enabled: false });
    await run('route', [accepted('m1'), accepted('m2', 1)]);
    expect(sums(notes)).toEqual({
      'all matched+passed+created': 2,
      'closed rule filtered/destination_disabled': 2,
      'named filtered/event_name': 2,
      'typed filtered/event_type': 2,
      'development filtered/environment': 2,
      'filtered filtered/filter': 2,
    });
  });

  it('an event that its integrations exclude from a destination', async () => {
    const { run, notes, catalog } = setUp();
    catalog.addDestination('place');
    catalog.addRule('all', 'place');
    await run('route', [entryOf(TOPIC.accepted, 0, event('m1', { integrations: { All: false } }))]);
    expect(sums(notes)).toEqual({ 'all filtered/integrations': 1 });
  });

  it('the results of a transformation: outputs, nothing, or an error', async () => {
    const { run, notes, world, catalog } = setUp();
    catalog.addDestination('place');
    catalog.addTransformation('tx');
    catalog.addRule('rule', 'place', { transformation_id: 'tx' });
    const outputs = (...events: readonly object[]): SandboxResult => ({
      ok: true,
      outputs: events.map((one) => JSON.stringify(one)),
      logs: [],
      durationMs: 1,
      loadMs: 0,
    });
    world.transform = (_source, { event: text }) => {
      const given = JSON.parse(text);
      if (given.message_id === 'two') return outputs(given, given);
      if (given.message_id === 'none') return outputs();
      if (given.message_id === 'one') return outputs(given);
      return { ok: false, kind: 'threw', message: 'no', logs: [], durationMs: 1, loadMs: 0 };
    };
    await run('route', [accepted('two'), accepted('none', 1), accepted('one', 2), accepted('bad', 3)]);
    expect(sums(notes)).toEqual({
      'rule matched+transformed': 1,
      'rule created': 2,
      'rule matched+dropped': 1,
      'rule matched+transformed+created': 1,
      'rule matched+failed/threw+dead/transformation': 1,
    });
  });

  it('the entries of a replay or a redrive again as applied, and not as matched', async () => {
    const { run, notes, catalog } = setUp();
    catalog.addDestination('place');
    catalog.addRule('rule', 'place', { enabled: false });
    const slow = (offset: number, headers: Headers) =>
      entryOf(TOPIC.eventsSlow, offset, event('m'), { [HEADER.rules]: 'rule', ...headers });
    await run('route.slow', [slow(0, { [HEADER.replay]: 'r1' })]);
    await run('route.slow', [slow(1, { [HEADER.redrives]: '1' })]);
    await run('route.slow', [slow(2, {})]);
    await run('route.slow', [slow(3, { [HEADER.redrives]: '1', [HEADER.rules]: 'gone' })]);
    expect(sums(notes)).toEqual({
      'rule replayed+passed+created': 1,
      'rule redriven/rule+passed+created': 1,
      'rule filtered/disabled': 1,
      'gone redriven/rule+failed/refused+dead/transformation': 1,
    });
  });
});

describe('deliver counts', () => {
  async function setUpDelivery() {
    const set = setUp();
    set.catalog.addDestination('place');
    set.catalog.addRule('rule', 'place');
    const [made] = await set.run('route', [accepted('m', 0, { source_id: 's1' }, { [HEADER.keyId]: 'k1' })]);
    set.notes.splice(0);
    return { ...set, made };
  }

  it('a delivery by its first attempt, with its latency and the event that its rule matched', async () => {
    const { run, notes, made, time } = await setUpDelivery();
    time.now = RECEIVED_AT + 250;
    await run('deliver', [handedOn(made)]);
    expect(notes).toEqual([
      {
        event: countedEvent(event('m', { source_id: 's1' }), 'k1'),
        rule: 'rule',
        destination: 'place',
        measures: 'delivered_first',
        latencyMs: 250,
      },
    ]);
  });

  it('each retry, and the delivery after it', async () => {
    const { run, notes, made, world } = await setUpDelivery();
    world.deliver = () => ({ outcome: 'retry', reason: 'HTTP 503' });
    const [retry] = await run('deliver', [handedOn(made)]);
    const [again] = await run('deliver.retry', [handedOn(retry)]);
    world.deliver = () => ({ outcome: 'delivered' });
    await run('deliver.retry', [handedOn(again)]);
    expect(sums(notes)).toEqual({ 'rule retried': 2, 'rule delivered_later': 1 });
  });

  it('an event of which nothing was sent as unwanted, and a recorded first attempt as delivered', async () => {
    const { run, notes, made, world } = await setUpDelivery();
    world.deliver = () => ({ outcome: 'unwanted', reason: 'not sent: no action takes it' });
    await run('deliver', [handedOn(made)]);
    expect(sums(notes)).toEqual({ 'rule unwanted': 1 });
    notes.splice(0);
    world.deliver = () => ({ outcome: 'delivered', recorded: true });
    await run('deliver', [handedOn(made)]);
    expect(sums(notes)).toEqual({ 'rule delivered_first': 1 });
  });

  it('a dead delivery by its cause, and its redrive, which has no latency', async () => {
    const { run, outcomeOf, notes, made, world } = await setUpDelivery();
    world.deliver = () => ({ outcome: 'dead', reason: 'HTTP 422' });
    const [dead] = await run('deliver', [handedOn(made)]);
    expect(sums(notes)).toEqual({ 'rule dead/destination': 1 });
    notes.splice(0);
    world.deliver = () => ({ outcome: 'delivered' });
    const { delivery } = outcomeOf(dead);
    const redriven = entryOf(
      TOPIC.deliveries,
      7,
      { ...delivery, redrives: 1 },
      {
        [HEADER.workspaceId]: delivery.workspace_id,
        [HEADER.environment]: 'production',
        [HEADER.redriveOf]: 'd',
        [HEADER.outcome]: 'retrying',
      },
    );
    await run('deliver', [redriven]);
    expect(sums(notes)).toEqual({ 'rule redriven/delivery': 1, 'rule delivered_later': 1 });
    expect(notes.some((note) => 'latencyMs' in note)).toBe(false);
  });
});

describe('on a log', () => {
  it('the counts of stages are appended with their commits, and added to the store once', async () => {
    const log = await openLog();
    const { stages, counters, catalog } = setUp({}, { log });
    catalog.addDestination('place');
    catalog.addRule('rule', 'place');
    const entries = Array.from({ length: 300 }, (_, n) => {
      const { key, value, headers } = entryOf(RECEIVED, 0, event(`m${n}`));
      return { key, value, headers };
    });
    await log.append(RECEIVED, entries);
    await log.append(RECEIVED, entries.slice(0, 20));
    await runOn(log, stages, ['validate', 'route', 'deliver', 'funnel']);
    const total = (measure: string) =>
      counters.batches
        .flatMap(({ increments }) => increments)
        .reduce((sum, { measures, count }) => sum + (measures.split('+').includes(measure) ? count : 0), 0);
    await until(() => total('delivered_first') === 300);
    expect(['received', 'duplicate', 'accepted', 'matched', 'created', 'delivered_first'].map(total)).toEqual(
      [320, 20, 300, 300, 300, 300],
    );
    const records = await log.end(TOPIC.funnelCounts, 0);
    expect(counters.offsets.get(`${TOPIC.funnelCounts}/0`)).toBe(records);
    // Summed up by commit: far fewer records than events.
    expect(records).toBeLessThan(200);
  });
});
