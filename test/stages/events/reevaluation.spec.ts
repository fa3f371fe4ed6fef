import {
  HEADER,
  type LogEntry,
  type OutputRecord,
  type Replay,
  type ReplayStep,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, START, setUp, topicsOf } from '../harness.ts';
import { contractOf, WORKSPACE } from '../memory-catalog.ts';
import { openLog } from '../on-log.ts';

const HOUR_MS = 3_600_000;
const RECEIVED = 'events.production';
const CONTRACT = contractOf({ event_name: 'Refunded' });

const stepIn = ({ value }: OutputRecord) => JSON.parse(value) as ReplayStep;

/**
 * A workspace with a contract that rejects every refund without a reason, and from `loosen` on only refunds
 * above 10.
 */
async function setUpRefunds() {
  const log = await openLog();
  const set = setUp({}, { log });
  set.catalog.add('contract.created', CONTRACT.id, CONTRACT);
  const most = { amount: 0 };
  set.world.evaluate = ({ properties }) =>
    properties?.reason !== undefined || Number(properties?.amount) <= most.amount
      ? { outcome: 'accepted', violations: [] }
      : {
          outcome: 'rejected',
          violations: [{ kind: 'required', path: '/reason', message: 'is missing', action: 'blocked' }],
        };
  let offset = 0;
  /** The output of validate for a received event; a rejection is appended to the log. */
  const receive = async (id: string, fields: Parameters<typeof event>[1] = {}) => {
    const value = event(id, { event: 'Refunded', properties: { amount: 4 }, ...fields });
    return receiveText(JSON.stringify(value));
  };
  const receiveText = async (text: string) => {
    const headers = { [HEADER.catalogPosition]: String(set.catalog.position), [HEADER.keyId]: 'key-1' };
    const outputRecords = await set.run('validate', [entryOf(RECEIVED, offset++, text, headers)]);
    for (const { topic, key, value, headers: own } of outputRecords)
      if (topic !== TOPIC.violations) await log.append(topic, [{ key, value, headers: own }]);
    return outputRecords;
  };
  let replays = 0;
  const create = (fields: Partial<Replay> = {}) => {
    const at = set.catalog.facts.length;
    const id = `replay-${++replays}`;
    set.catalog.add('replay.created', id, {
      id,
      workspace_id: WORKSPACE,
      outcome: 'rejected',
      rule_id: null,
      since: new Date(START - HOUR_MS).toISOString(),
      until: new Date(Date.now() + HOUR_MS).toISOString(),
      events_per_second: 400,
      new_ids: false,
      status: 'active',
      created_by: 'a',
      ...fields,
    });
    return entryOf(TOPIC.catalog, at, set.catalog.facts[at] ?? {});
  };
  let slowOffset = 0;
  /** Runs a replay to its end: the records it sent to the slow queue of validate, in that form. */
  const drive = async (created: LogEntry) => {
    const slow: LogEntry[] = [];
    const phases: (string | undefined)[] = [];
    let [step] = await set.run('replay', [created]);
    for (let n = 0; step !== undefined && stepIn(step).status === 'running' && n < 20; n++) {
      phases.push(stepIn(step).phase);
      const emitted: readonly OutputRecord[] = await set.run('replay', [handedOn(step)]);
      expect(
        topicsOf(emitted).every((topic) => [TOPIC.receivedSlow, TOPIC.replays].includes(topic as never)),
      ).toBe(true);
      for (const one of emitted) if (one.topic === TOPIC.receivedSlow) slow.push(handedOn(one, slowOffset++));
      step = emitted.find(({ topic }) => topic === TOPIC.replays);
    }
    return { slow, phases, last: step && stepIn(step) };
  };
  const reevaluate = async (fields: Partial<Replay> = {}) => {
    const run = await drive(create(fields));
    return { ...run, outputRecords: run.slow.length === 0 ? [] : await set.run('validate.slow', run.slow) };
  };
  const loosen = () => {
    most.amount = 10;
  };
  return { ...set, log, receive, receiveText, create, drive, reevaluate, loosen };
}

const idsIn = (outputRecords: readonly OutputRecord[]) =>
  outputRecords.map(({ headers }) => headers[HEADER.messageId]);

describe('rejected events whose contract was corrected', () => {
  it('stayed rejected for good: those that pass now are accepted as they were received, the others stay', async () => {
    const { receiveText, receive, reevaluate, loosen } = await setUpRefunds();
    const { properties: _, ...rest } = event('r-1', { event: 'Refunded' });
    const text = `${JSON.stringify(rest).slice(0, -1)},"properties":{"amount":7,"order":9007199254740993771}}`;
    expect(topicsOf(await receiveText(text))).toEqual([TOPIC.rejected, TOPIC.violations]);
    await receive('r-2', { properties: { amount: 11 } });
    await receive('r-3');
    loosen();
    const { outputRecords, last, phases } = await reevaluate();
    expect(topicsOf(outputRecords)).toEqual([TOPIC.accepted, TOPIC.accepted]);
    expect(outputRecords[0]?.value).toBe(text);
    expect(outputRecords[0]?.headers).toMatchObject({
      [HEADER.reevaluatedBy]: 'replay-1',
      [HEADER.keyId]: 'key-1',
      outcome: 'accepted',
      'contract-id': CONTRACT.id,
    });
    expect(outputRecords[0]?.headers).not.toHaveProperty(HEADER.replay);
    expect(last).toMatchObject({ status: 'finished', looked_at: 3, events: 2, still_rejected: 1 });
    expect(new Set(phases)).toEqual(new Set([undefined]));
  });

  it('were accepted twice by a second replay, also one that comes after the window of repeated ids', async () => {
    const { receive, create, drive, run, loosen, time } = await setUpRefunds();
    await receive('r-4');
    loosen();
    const [first, second] = [await drive(create()), await drive(create())];
    const once = await run('validate.slow', first.slow);
    expect(idsIn(once)).toEqual(['r-4']);
    expect(await run('validate.slow', second.slow)).toEqual([]);
    // A crash before the commit repeats the same entries.
    expect(await run('validate.slow', [...second.slow, ...first.slow])).toEqual(once);
    const third = await drive(create());
    expect(third.slow).toHaveLength(1);
    time.now += 60 * HOUR_MS;
    expect(await run('validate.slow', third.slow)).toEqual([]);
  });

  it('were accepted beside the corrected event that the producer had sent under the same id', async () => {
    const { receive, reevaluate, loosen } = await setUpRefunds();
    await receive('r-5');
    expect(topicsOf(await receive('r-5', { properties: { reason: 'late' } }))).toEqual([TOPIC.accepted]);
    await receive('r-6');
    loosen();
    const { outputRecords, last } = await reevaluate();
    expect(idsIn(outputRecords)).toEqual(['r-6']);
    expect(last).toMatchObject({ events: 2, still_rejected: 0 });
    expect(await receive('r-6', { properties: { reason: 'later' } })).toEqual([]);
  });

  it('nor beside one whose id is forgotten: accepted events are compared first', async () => {
    const { receive, reevaluate, loosen, time } = await setUpRefunds();
    time.now = START - 80 * HOUR_MS;
    await receive('r-7');
    await receive('r-8');
    await receive('r-9', { properties: { reason: 'never rejected' } });
    await receive('r-7', { user_id: 'another', properties: { reason: 'sent again' } });
    time.now = START;
    loosen();
    const since = new Date(START - 90 * HOUR_MS).toISOString();
    const { outputRecords, last, phases } = await reevaluate({ since });
    expect([...new Set(phases)]).toEqual(['mark', 'compare', 'evaluate']);
    expect(idsIn(outputRecords)).toEqual(['r-8']);
    expect(last).toMatchObject({ status: 'finished', looked_at: 2, events: 2 });
    expect((await reevaluate({ since })).outputRecords).toEqual([]);
  });

  it('are evaluated by the contracts of when the replay was created, whatever changes while it runs', async () => {
    const { receive, create, drive, catalog, run } = await setUpRefunds();
    await receive('r-10');
    const created = create();
    catalog.add('contract.archived', CONTRACT.id, {});
    expect(await drive(created)).toMatchObject({ slow: [], last: { still_rejected: 1, events: 0 } });
    const { slow } = await drive(create());
    expect(slow).toHaveLength(1);
    expect(topicsOf(await run('validate.slow', slow))).toEqual([TOPIC.accepted]);
  });

  it('that another process still rejects are not recorded a second time', async () => {
    const { receive, create, drive, run, loosen, world } = await setUpRefunds();
    await receive('r-11');
    loosen();
    const { slow } = await drive(create());
    const violations = [{ kind: 'required', path: '/x', message: 'is missing', action: 'blocked' }] as const;
    world.evaluate = () => ({ outcome: 'rejected', violations });
    expect(await run('validate.slow', slow)).toEqual([]);
  });

  it.each([
    [{ event_names: ['Refunded'] }, ['a', 'b', 'c']],
    [{ event_names: ['Paid'] }, []],
    [{ event_types: ['page' as const] }, []],
    [{ event_types: ['track' as const], environments: ['development' as const] }, ['b']],
    [{ contract_id: CONTRACT.id, source_id: 's-1' }, ['c']],
    [{ contract_id: '00000000-0000-4000-8000-0000000000c8' }, []],
    [{ until: new Date(START).toISOString() }, []],
  ])('are narrowed down by %j', async (fields, ids) => {
    const { receive, reevaluate, loosen } = await setUpRefunds();
    await receive('a');
    await receive('b', { environment: 'development' });
    await receive('c', { source_id: 's-1' });
    loosen();
    expect(idsIn((await reevaluate(fields)).outputRecords)).toEqual(ids);
  });
});
