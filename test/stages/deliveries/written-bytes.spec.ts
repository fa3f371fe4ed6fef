import {
  countRecords,
  type DeliveryResult,
  type Headers,
  type HistoryEntry,
  type LogEntry,
  outcomeOfEntry,
  retryTopic,
  Tally,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { event, setUp } from '../harness.ts';
import { INSTALLATION, MemoryCatalog, WORKSPACE } from '../memory-catalog.ts';
import { openLog } from '../on-log.ts';

const RULES = 150;
const EVENT_BYTES = 30_000;
const STEPS = ['10s', '1m', '10m', '1h', '6h'];
const RETRY_TOPICS = ['1s', ...STEPS].map(retryTopic);
/** Of what the producer sent; of one attempt of one delivery. */
const COPIES = 3;
const ATTEMPT_BYTES = 600;

const uuid = (n: number) => `${String(n).padStart(8, '0')}-aaaa-4bbb-8ccc-dddddddddddd`;

/** The pipeline on a log, one stage at a time, with a count of every byte that it writes. */
async function setUpCounted(catalog = new MemoryCatalog()) {
  const log = await openLog();
  const parts = setUp({}, { log, catalog });
  const { run, time, notes } = parts;
  const bytes = new Map<string, number>();
  const read = new Map<string, number>();
  const add = (topic: string, count: number) => bytes.set(topic, (bytes.get(topic) ?? 0) + count);
  const append = async (
    topic: string,
    entries: readonly { readonly key: string; readonly value: string; readonly headers: Headers }[],
  ) => {
    await log.append(topic, entries);
    for (const { key, value, headers } of entries)
      add(topic, Buffer.byteLength(`${key}${value}${JSON.stringify(headers)}`));
  };
  /** Runs a stage on what its topic has now. */
  const work = async (stage: string, topic: string) => {
    const name = `${stage} ${topic}`;
    const end = await log.end(topic, 0);
    for (let from = read.get(name) ?? 0; from < end; from = read.get(name) ?? 0) {
      const { entries, next } = await log.read(topic, 0, from);
      read.set(name, next);
      notes.splice(0);
      const stamped = entries.map((entry): LogEntry => ({ ...entry, timestamp: time.now }));
      const outputRecords = [...(await run(stage, stamped)), ...countRecords([Tally.of(notes)])];
      for (const [to, records] of Map.groupBy(outputRecords, (record) => record.topic))
        await append(to, records);
    }
  };
  const received = async (id: string, properties: object, beforeDeliver = async () => {}) => {
    const value = JSON.stringify(
      event(id, { user_id: uuid(2), source_id: uuid(3), properties: properties as Record<string, string> }),
    );
    await append('events.production', [
      { key: 'k', value, headers: { 'catalog-position': String(catalog.position), 'key-id': uuid(4) } },
    ]);
    await work('validate', 'events.production');
    await work('route', TOPIC.accepted);
    await beforeDeliver();
    await work('deliver', TOPIC.deliveries);
    await work('deliver.slow', TOPIC.deliveriesSlow);
  };
  const showHistory = async () => {
    for (const topic of [...RETRY_TOPICS, TOPIC.deliveriesDead, TOPIC.outcomes]) await work('history', topic);
  };
  /** Lets a retry topic be due. */
  const retry = async (topic: string, ms: number) => {
    time.pass(ms);
    await work('deliver.retry', topic);
    await work('deliver.slow', TOPIC.deliveriesSlow);
    await showHistory();
  };
  const listed = () =>
    parts.history.list({ kind: 'delivery', workspaceId: WORKSPACE, limit: 200, details: true });
  const total = async () => {
    const { entries } = await listed();
    const inHistory = entries.reduce((sum, { facets, body, detail }) => {
      return sum + Buffer.byteLength(JSON.stringify({ facets, body, detail }));
    }, 0);
    return [...bytes.values()].reduce((sum, count) => sum + count, inHistory);
  };
  return { ...parts, log, bytes, received, retry, showHistory, listed, total };
}

const STEP_MS = [12_000, 72_000, 720_000, 4_320_000];
const LAST_STEP_MS = 7 * 3_600_000;

it('one event with rules that fail wrote itself again at each attempt: it is written a few times in all', async () => {
  const { world, catalog, received, retry, showHistory, listed, total } = await setUpCounted();
  for (let n = 0; n < RULES; n++) {
    catalog.addDestination(uuid(1_000 + n));
    catalog.addRule(uuid(2_000 + n), uuid(1_000 + n));
  }
  const attempts: number[] = [];
  const text = 'x'.repeat(EVENT_BYTES);
  world.deliver = ({ event: { properties }, attempts: before }) => {
    expect(properties).toEqual({ text });
    attempts.push(before.length + 1);
    return { outcome: 'retry', reason: 'connect ECONNREFUSED 127.0.0.1:9', status: 503, response: 'no' };
  };
  await received(uuid(5), { text });
  await showHistory();
  for (const [n, ms] of STEP_MS.entries()) await retry(retryTopic(STEPS[n] ?? ''), ms);
  await retry(retryTopic('6h'), LAST_STEP_MS);
  expect(attempts.length).toBe(RULES * (1 + STEPS.length));
  const afterSteps = await total();
  expect(afterSteps).toBeLessThan(COPIES * EVENT_BYTES + RULES * STEPS.length * ATTEMPT_BYTES);

  for (let n = 0; n < 5; n++) await retry(retryTopic('6h'), LAST_STEP_MS);
  const all = await total();
  const steps = attempts.length / RULES - 1;
  expect(all).toBeLessThan(COPIES * EVENT_BYTES + RULES * steps * ATTEMPT_BYTES);
  const { entries } = await listed();
  expect(entries).toHaveLength(RULES);
  for (const { facets } of entries) expect(facets).toMatchObject({ status: 'dead', cause: 'expired' });
});

it('processes of 0.2.0 could not read references: events are copied until the upgrade from it is finished', async () => {
  const { catalog, received, log } = await setUpCounted(new MemoryCatalog(1));
  catalog.addDestination('d');
  for (const id of ['r1', 'r2']) catalog.addRule(id, 'd');
  const text = 'z'.repeat(3_000);
  await received(uuid(1), { text });
  catalog.add('installation.created', INSTALLATION, {}, 2);
  await received(uuid(2), { text });
  const { entries } = await log.read(TOPIC.deliveries, 0, 0);
  expect(entries.map(({ value }) => value.includes(text))).toEqual([true, true, false, false]);
  const counts = (await log.read(TOPIC.funnelCounts, 0, 0)).entries;
  expect(counts.length).toBeGreaterThan(0);
});

describe('a delivery whose event is elsewhere', () => {
  const LARGE = { text: 'y'.repeat(5_000) };
  const oneRule = async (transformed = false) => {
    const parts = await setUpCounted();
    parts.catalog.addDestination('d');
    if (transformed) parts.catalog.addTransformation('t', { status: 'active' });
    parts.catalog.addRule('r', 'd', transformed ? { transformation_id: 't' } : {});
    const bodies: unknown[] = [];
    const answers: DeliveryResult[] = [];
    parts.world.deliver = ({ event: { properties } }) => {
      bodies.push(properties);
      return answers.shift() ?? { outcome: 'delivered', status: 204 };
    };
    return { ...parts, bodies, answers };
  };
  const FAILS: DeliveryResult = { outcome: 'retry', reason: 'answered 503', status: 503 };

  it('made by a transformation was copied by each attempt: it is in the log once', async () => {
    const { received, retry, bodies, answers, bytes } = await oneRule(true);
    answers.push(FAILS, FAILS);
    await received(uuid(1), LARGE);
    await retry(retryTopic('10s'), 12_000);
    await retry(retryTopic('1m'), 72_000);
    expect(bodies).toEqual([LARGE, LARGE, LARGE]);
    for (const topic of ['10s', '1m'].map(retryTopic)) expect(bytes.get(topic)).toBeLessThan(ATTEMPT_BYTES);
    expect(bytes.get(TOPIC.outcomes)).toBeLessThan(ATTEMPT_BYTES);
  });

  it('waited for a paused destination for longer than the log keeps events: it is written anew before', async () => {
    const { received, retry, bodies, catalog, time, log, run } = await oneRule();
    catalog.add('destination.updated', 'd', { paused: true });
    await received(uuid(1), LARGE);
    await retry(retryTopic('1h'), 2 * 24 * 3_600_000);
    const waiting = await log.read(retryTopic('1h'), 0, 0);
    expect(waiting.entries.map(({ value }) => value.includes(LARGE.text))).toEqual([false, true]);
    expect(bodies).toEqual([]);
    catalog.add('destination.updated', 'd', { paused: false });
    const entry = waiting.entries[1];
    await run('deliver.retry', entry === undefined ? [] : [{ ...entry, timestamp: time.now }]);
    expect(bodies).toEqual([LARGE]);
  });

  it('is dead with the reason where the log no longer has the event', async () => {
    const { received, bodies, listed, showHistory, log } = await oneRule();
    await received(uuid(2), {});
    await received(uuid(1), LARGE, () => log.dropBelow(TOPIC.accepted, 0, 2));
    await showHistory();
    expect(bodies).toEqual([{}]);
    const { entries } = await listed();
    expect(entries.map((one) => outcomeOfEntry(one))).toMatchObject([
      { status: 'dead', cause: 'expired', reason: 'expired: its event is no longer kept in the log' },
    ]);
  });

  it('was shown as retrying for ever where the log no longer has its record: it is dead, with the event that history has', async () => {
    const { received, showHistory, answers, listed, log, catalog, history } = await oneRule();
    answers.push(FAILS);
    await received(uuid(1), { total: 5 });
    await showHistory();
    await log.dropBelow(TOPIC.deliveries, 0, await log.end(TOPIC.deliveries, 0));
    // Another process: this one still has the record.
    const { run } = setUp({}, { log, catalog, history });
    const { entries: waiting } = await log.read(retryTopic('10s'), 0, 0);
    const dead = await run('deliver.retry', waiting);
    await log.append(TOPIC.deliveriesDead, dead);
    await run('history', (await log.read(TOPIC.deliveriesDead, 0, 0)).entries);
    const { entries } = await listed();
    expect(entries.map((one) => outcomeOfEntry(one))).toMatchObject([
      {
        status: 'dead',
        cause: 'expired',
        reason: 'expired: its record is no longer kept in the log',
        delivery: { destination_id: 'd', attempts: [{ status: 503 }], event: { properties: { total: 5 } } },
      },
    ]);
  });

  it('is stopped by a rule that was narrowed to another value of the event meanwhile', async () => {
    const { received, retry, bodies, answers, listed, catalog } = await oneRule();
    answers.push(FAILS);
    await received(uuid(1), LARGE);
    catalog.add('rule.updated', 'r', { filter: 'event.properties.text == "z"' });
    await retry(retryTopic('10s'), 12_000);
    expect(bodies).toHaveLength(1);
    const { entries } = await listed();
    expect(outcomeOfEntry(entries[0] as HistoryEntry)).toMatchObject({ status: 'dead', cause: 'rule' });
  });

  it('an engine that does not answer for its event is no failure of the destination', async () => {
    const { received, bodies, log } = await oneRule();
    const read = log.read.bind(log);
    log.read = async (topic, ...rest) => {
      if (topic === TOPIC.accepted && rest[2]?.maxBytes !== undefined) throw new Unavailable('down');
      return read(topic, ...rest);
    };
    await expect(received(uuid(1), LARGE)).rejects.toThrow(Unavailable);
    expect(bodies).toEqual([]);
  });
});
