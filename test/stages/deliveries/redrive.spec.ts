import {
  asyncHandler,
  countedEvent,
  countRecords,
  deadLetterOf,
  type EventLog,
  HEADER,
  iso,
  type Stage,
  Tally,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { REDRIVE, type RedriveOutcome, readDeadLetters, redrive } from '@tributary/processors';
import { describe, expect, it } from 'vitest';
import { entryOf, event, START, setUp, until } from '../harness.ts';
import { openLog } from '../on-log.ts';

type SetUp = ReturnType<typeof setUp>;

/** The result of one redrive. */
interface Told {
  readonly outcome: RedriveOutcome;
  readonly stage: string | undefined;
  readonly error: string | undefined;
}

const AT = iso(START);
const RECEIVED = 'events.production';

const accepted = (id: string, offset = 0) => entryOf(TOPIC.accepted, offset, event(id));
const received = (id: string, offset = 0) => entryOf(RECEIVED, offset, event(id));

/** Dead-letters entries, as a release would that could not process them. */
async function giveUp(
  log: EventLog,
  ...records: readonly (readonly [stage: string, entry: ReturnType<typeof entryOf>])[]
): Promise<void> {
  await log.append(
    TOPIC.poison,
    records.map(([stage, entry]) => deadLetterOf(stage, entry, 'broken', AT)),
  );
}

/** Redrives all current entries, as the command does. */
async function redriven(
  log: EventLog,
  { stages }: Pick<SetUp, 'stages'>,
  chosen?: readonly string[],
): Promise<readonly Told[]> {
  const { last } = await readDeadLetters(log);
  const told: Told[] = [];
  const run = await log.run(
    redrive({
      stages,
      clock: () => START,
      ...(chosen && { chosen: new Set(chosen) }),
      last,
      report: (outcome, record, error) => told.push({ outcome, stage: record?.stage, error }),
    }),
  );
  const end = last.get(0) ?? -1;
  await until(async () => ((await log.positionOf(REDRIVE, TOPIC.poison, 0)) ?? 0) > end);
  await run.stop();
  return told;
}

async function valuesOf(log: EventLog, topic: string): Promise<readonly unknown[]> {
  const { entries } = await log.read(topic, 0, 0);
  return entries.map(({ value }) => JSON.parse(value));
}

/** The entries on `stages.dead` from an offset on. */
async function textsOf(log: EventLog, from: number): Promise<readonly string[]> {
  const texts: string[] = [];
  for (let next = from; next < (await log.end(TOPIC.poison, 0)); ) {
    const read = await log.read(TOPIC.poison, 0, next);
    for (const { key, value, headers } of read.entries) texts.push(JSON.stringify([key, value, headers]));
    next = read.next;
  }
  return texts;
}

/** The stages, one of which fails on all entries. */
function withBroken({ stages }: SetUp, name: string): readonly Stage[] {
  const broken = async () => {
    throw new Error('still broken');
  };
  return stages.map((stage) => {
    if (stage.name !== name) return stage;
    return stage.kind === 'batch'
      ? { ...stage, process: broken }
      : { ...stage, handle: asyncHandler(broken) };
  });
}

describe('redrive', () => {
  it('each stage processes its dead-lettered entries, and the event continues from there', async () => {
    const set = setUp();
    set.catalog.addDestination('place');
    set.catalog.addRule('rule', 'place');
    const log = await openLog();
    await giveUp(log, ['validate', received('judged', 7)], ['route', accepted('routed', 3)]);
    expect((await redriven(log, set)).map(({ outcome }) => outcome)).toEqual(['redriven', 'redriven']);
    expect(await valuesOf(log, TOPIC.accepted)).toMatchObject([{ message_id: 'judged' }]);
    expect(await valuesOf(log, TOPIC.deliveries)).toMatchObject([{ message_id: 'routed', created_at: AT }]);
    expect((await readDeadLetters(log)).stages).toEqual([]);
  });

  it('is the same event for readers that know it by its position, and a repeated one elsewhere is none', async () => {
    const set = setUp();
    const log = await openLog();
    await set.run('validate', [received('first', 4)]); // claimed, then given up, say, by what came after
    await set.run('validate', [received('second', 9)]);
    await giveUp(log, ['validate', received('first', 4)], ['validate', received('second', 4)]);
    await redriven(log, set);
    expect(await valuesOf(log, TOPIC.accepted)).toMatchObject([{ message_id: 'first' }]);
  });

  it('appends uncounted records again, once, as their partition was counted past them', async () => {
    const set = setUp();
    const log = await openLog();
    const note = { event: countedEvent(event('m')), rule: '', destination: '', measures: 'received' };
    const [record] = countRecords([Tally.of([note])]);
    const counts = entryOf(TOPIC.funnelCounts, 3, record?.value ?? '');
    await giveUp(log, ['funnel', counts], ['funnel', entryOf(TOPIC.funnelCounts, 4, '{"v":2}')]);
    expect((await redriven(log, set)).map(({ outcome }) => outcome)).toEqual(['redriven', 'failed']);
    const { entries } = await log.read(TOPIC.funnelCounts, 0, 0);
    expect(entries).toMatchObject([
      { value: counts.value, headers: { [HEADER.appendedAt]: String(counts.timestamp) } },
    ]);
  });

  it('a record that fails again goes to the end with the new error, and is tried once', async () => {
    const set = setUp();
    const log = await openLog();
    await giveUp(log, ['route', accepted('a', 1)], ['profile', accepted('b', 2)], ['gone', accepted('c')]);
    const told = await redriven(log, { ...set, stages: withBroken(set, 'route') });
    expect(told).toEqual([
      { outcome: 'failed', stage: 'route', error: 'still broken' },
      { outcome: 'redriven', stage: 'profile', error: undefined },
      { outcome: 'failed', stage: 'gone', error: 'there is no stage "gone"' },
    ]);
    const left = await readDeadLetters(log);
    expect(left.stages).toEqual([
      { stage: 'route', records: 1, from: AT, to: AT, error: 'still broken' },
      { stage: 'gone', records: 1, from: AT, to: AT, error: 'there is no stage "gone"' },
    ]);
    expect(await redriven(log, set)).toMatchObject([{ outcome: 'redriven' }, { outcome: 'failed' }]);
  });

  it('leaves entries that were not chosen, and those that it cannot read, unchanged', async () => {
    const set = setUp();
    const log = await openLog();
    // JSON inside JSON: more than may be appended.
    await log.append(TOPIC.accepted, [{ key: 'k', value: JSON.stringify('"'.repeat(500_000)), headers: {} }]);
    const broken = withBroken(set, 'route').find(({ name }) => name === 'route');
    const run = await log.run(broken ?? expect.fail());
    await until(async () => (await log.end(TOPIC.poison, 0)) > 0);
    await run.stop();
    await giveUp(log, ['validate', received('v')]);
    await log.append(TOPIC.poison, [{ key: 'k', value: '{"stage":"route"}', headers: {} }]);
    const before = await textsOf(log, 0);
    const end = await log.end(TOPIC.poison, 0);
    const told = await redriven(log, set, ['validate']);
    expect(told.map(({ outcome }) => outcome)).toEqual(['left', 'redriven', 'left']);
    const after = await textsOf(log, end);
    expect(after.length).toBe(2);
    expect([after[0] === before[0], after[1] === before[2]]).toEqual([true, true]);
    expect((await readDeadLetters(log)).stages.map(({ stage }) => stage)).toEqual(['route', undefined]);
  });

  it('waits for an engine that does not answer', async () => {
    const set = setUp();
    const log = await openLog();
    const headers = { [HEADER.catalogPosition]: String(set.catalog.position + 1) };
    await giveUp(log, ['validate', entryOf(RECEIVED, 3, event('later'), headers)]);
    let asked = 0;
    set.catalog.waitFor = async () => {
      if (++asked < 3) throw new Unavailable('not yet');
    };
    expect(await redriven(log, set)).toMatchObject([{ outcome: 'redriven' }]);
    expect(asked).toBe(3);
  });

  it('promises no order of events in the slow queue, which others keep', async () => {
    const set = setUp({ slowTransformationMs: 0 });
    set.catalog.addDestination('place');
    set.catalog.addTransformation('tx');
    set.catalog.addRule('rule', 'place', { transformation_id: 'tx' });
    const never = Promise.withResolvers<never>();
    set.world.transform = () => never.promise;
    const log = await openLog();
    await giveUp(log, ['route', accepted('a', 5)]);
    await redriven(log, set);
    const { entries } = await log.read(TOPIC.eventsSlow, 0, 0);
    expect(entries.map(({ headers }) => headers)).toEqual([
      expect.objectContaining({ [HEADER.rules]: 'rule' }),
    ]);
    expect(entries[0]?.headers).not.toHaveProperty(HEADER.acceptedOffset);
  });
});
