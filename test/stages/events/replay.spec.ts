import {
  type Delivery,
  eventKey,
  HEADER,
  type OutputRecord,
  type ReplayStep,
  type StorageVerdict,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';
import { openLog } from '../on-log.ts';

const HOUR_MS = 3_600_000;
const EVENTS = 60;
/** Entries of a tick at 100 events a second. */
const A_STEP = 25;

const stepIn = ({ value }: OutputRecord) => JSON.parse(value) as ReplayStep;

async function setUpReplay(
  fields: { rule_id?: string | null; events?: number; new_ids?: boolean } = {},
  shared: Parameters<typeof setUp>[1] = {},
) {
  const log = await openLog();
  const set = setUp({}, { ...shared, log });
  set.catalog.addDestination('place');
  set.catalog.addRule('rule', 'place');
  const accept = (id: string, about: Parameters<typeof event>[1] = {}) => {
    const accepted = event(id, about);
    const { value, headers } = entryOf(TOPIC.accepted, 0, accepted, {
      [HEADER.messageId]: id,
      [HEADER.workspaceId]: accepted.workspace_id,
      [HEADER.environment]: accepted.environment,
    });
    return log.append(TOPIC.accepted, [{ key: eventKey(accepted), value, headers }]);
  };
  for (let n = 0; n < (fields.events ?? EVENTS); n++) {
    await accept(`m${n}`);
    await accept(`other${n}`, { workspace_id: '00000000-0000-4000-8000-00000000000f' });
    await accept(`dev${n}`, { environment: 'development' });
  }
  const now = Date.now();
  const asked = () => {
    const at = set.catalog.facts.length;
    set.catalog.add('replay.created', 'replay-1', {
      id: 'replay-1',
      workspace_id: WORKSPACE,
      rule_id: fields.rule_id ?? null,
      since: new Date(now - HOUR_MS).toISOString(),
      until: new Date(now + HOUR_MS).toISOString(),
      events_per_second: 100,
      ...(fields.new_ids === undefined ? {} : { new_ids: fields.new_ids }),
      status: 'active',
      created_by: 'a',
    });
    return entryOf(TOPIC.catalog, at, set.catalog.facts[at] ?? {});
  };
  /** Runs a replay from its first step to its end: the records it sent on, by step. */
  const drive = async (first: OutputRecord | undefined) => {
    const steps: OutputRecord[][] = [];
    let step = first;
    for (let n = 0; step !== undefined && stepIn(step).status === 'running' && n < 100; n++) {
      const emitted = await set.run('replay', [handedOn(step)]);
      steps.push(emitted.filter(({ topic }) => topic === TOPIC.eventsSlow));
      step = emitted.find(({ topic }) => topic === TOPIC.replays);
    }
    return { steps, last: step && stepIn(step) };
  };
  return { ...set, accept, asked, drive };
}

describe('a replay', () => {
  it('sends on each accepted event of its time that a rule accepts, at its pace, and ends', async () => {
    const { run, asked, drive } = await setUpReplay();
    const [first] = await run('replay', [asked()]);
    const { steps, last } = await drive(first);
    expect(steps.map((sent) => sent.length)).toEqual([A_STEP, A_STEP, EVENTS - 2 * A_STEP]);
    const sent = steps.flat();
    expect(new Set(sent.map(({ headers }) => headers[HEADER.messageId])).size).toBe(EVENTS);
    expect(sent.every(({ headers }) => headers[HEADER.rules] === 'rule')).toBe(true);
    expect(last).toMatchObject({ status: 'finished', events: EVENTS, looked_at: EVENTS * 3 });
  });

  it('a step that is made again after a crash is the same, so nothing is sent on twice', async () => {
    const { run, asked } = await setUpReplay();
    const [first] = await run('replay', [asked()]);
    const once = await run('replay', [handedOn(first)]);
    expect(await run('replay', [handedOn(first)])).toEqual(once);
  });

  async function replayedOnce(fields: { new_ids?: boolean }) {
    const set = await setUpReplay({ events: 1, ...fields });
    const received: Delivery[] = [];
    set.world.deliver = (delivery) => {
      received.push(delivery);
      return { outcome: 'delivered' };
    };
    const [first] = await set.run('replay', [set.asked()]);
    const [slow] = await set.run('replay', [handedOn(first)]);
    const [replayed] = await set.run('route.slow', [handedOn(slow)]);
    const [original] = await set.run('route', [entryOf(TOPIC.accepted, 0, event('m0'))]);
    await set.run('deliver', [handedOn(original, 0), handedOn(replayed, 1)]);
    return { ...set, received, slow, replayed, original };
  }
  const deliveryIn = (outputRecord: OutputRecord | undefined): Delivery =>
    JSON.parse(outputRecord?.value ?? '{}');

  it('each replayed delivery had a new id: two rows of one event. It is received under the first id, marked', async () => {
    const { received, replayed, original } = await replayedOnce({ new_ids: false });
    const { id, ...first } = deliveryIn(original);
    expect(first).not.toHaveProperty('replay');
    expect(first).not.toHaveProperty('idempotency_key');
    expect(deliveryIn(replayed)).toMatchObject({ replay: 'replay-1', rule_id: 'rule', idempotency_key: id });
    expect(deliveryIn(replayed).id).not.toBe(id);
    expect(replayed?.headers[HEADER.replay]).toBe('replay-1');
    expect(received.map((one) => [one.id, one.replay])).toEqual([
      [id, undefined],
      [id, 'replay-1'],
    ]);
  });

  it.each([{ new_ids: true }, {}])(
    'makes new ids where it was asked to, or before it could be: %j',
    async (fields) => {
      const { received, replayed } = await replayedOnce(fields);
      expect(deliveryIn(replayed)).not.toHaveProperty('idempotency_key');
      expect(new Set(received.map(({ id }) => id)).size).toBe(2);
      expect(received.at(1)).toMatchObject({ id: deliveryIn(replayed).id, replay: 'replay-1' });
    },
  );

  it('keeps the first id on retries and on a dead delivery of a filter', async () => {
    const { run, outcomeOf, slow, original, catalog, world } = await replayedOnce({ new_ids: false });
    const { id } = deliveryIn(original);
    world.deliver = () => ({ outcome: 'retry', reason: 'HTTP 503', status: 503 });
    const [replayed] = await run('route.slow', [handedOn(slow)]);
    const [retried] = await run('deliver', [handedOn(replayed)]);
    expect(outcomeOf(retried).delivery).toMatchObject({ idempotency_key: id, attempts: [{ status: 503 }] });

    catalog.add('rule.updated', 'rule', { filter: 'event.properties.absent > 5' });
    const named = { ...slow?.headers, [HEADER.match]: 'named' };
    const [dead] = await run('route.slow', [{ ...handedOn(slow), headers: named }]);
    expect(JSON.parse(dead?.value ?? '{}')).toMatchObject({
      cause: 'filter_failed',
      delivery: { idempotency_key: id, replay: 'replay-1' },
    });
  });

  it('stops when it is cancelled, and when its rule is gone', async () => {
    const cancelled = await setUpReplay();
    const [first] = await cancelled.run('replay', [cancelled.asked()]);
    cancelled.catalog.add('replay.cancelled', 'replay-1', {});
    expect(await cancelled.drive(first)).toMatchObject({ steps: [[]], last: { status: 'cancelled' } });

    const gone = await setUpReplay({ rule_id: 'rule' });
    const [begun] = await gone.run('replay', [gone.asked()]);
    gone.catalog.add('rule.deleted', 'rule', {});
    expect((await gone.drive(begun)).last).toMatchObject({
      status: 'failed',
      reason: 'the rule was deleted',
    });
  });

  it('of a workspace over its budget wrote four steps a second: it waits a minute at a time, and goes on where it was', async () => {
    const state: { over: StorageVerdict } = { over: undefined };
    const { run, asked, drive, stages } = await setUpReplay(
      {},
      { budgets: { verdictOf: () => state.over, add() {} } },
    );
    let [step] = await run('replay', [asked()]);
    state.over = { action: 'refuse', budget: 'bytes_per_hour', used: 2, limit: 1, retryAfterMs: 1 };
    for (let minute = 0; minute < 3; minute++) {
      const emitted = await run('replay', [handedOn(step)]);
      expect(emitted.map(({ topic }) => topic)).toEqual([TOPIC.replaysWaiting]);
      [step] = emitted;
    }
    const sources = stages.find(({ name }) => name === 'replay')?.reads ?? [];
    expect(sources.find(({ topic }) => topic === TOPIC.replaysWaiting)?.dueAt?.(5)).toBe(60_005);
    state.over = undefined;
    expect((await drive(step)).last).toMatchObject({ status: 'finished', events: EVENTS });
  });

  it('for a named rule continues while that is disabled, and for no other', async () => {
    const { run, catalog, asked, drive } = await setUpReplay({ rule_id: 'rule', events: 3 });
    catalog.addRule('another', 'place');
    catalog.add('rule.updated', 'rule', { enabled: false });
    const [first] = await run('replay', [asked()]);
    const sent = (await drive(first)).steps.flat();
    expect(sent.map(({ headers }) => headers[HEADER.rules])).toEqual(['rule', 'rule', 'rule']);
  });

  it('is not begun by other facts, nor by one of long ago that a group reads again', async () => {
    const { run, asked, time, catalog } = await setUpReplay({ events: 1 });
    expect(await run('replay', [entryOf(TOPIC.catalog, 0, catalog.facts[0] ?? {})])).toEqual([]);
    const entry = asked();
    time.pass(48 * HOUR_MS);
    expect(await run('replay', [entry])).toEqual([]);
  });
});
