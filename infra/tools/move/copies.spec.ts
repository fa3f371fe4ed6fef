import { describe, expect, it } from 'vitest';
import { neededPartitions, nextStep } from './copies.ts';

const source = { first: 100, end: 250 };

it.each([
  ['fills what retention dropped', { first: 0, end: 0 }, { do: 'fill', from: 0, to: 100 }],
  ['goes on filling', { first: 0, end: 60 }, { do: 'fill', from: 60, to: 100 }],
  ['copies records under their offsets', { first: 0, end: 100 }, { do: 'append', from: 100 }],
  ['goes on copying', { first: 0, end: 180 }, { do: 'append', from: 180 }],
  ['drops the filler once all is there', { first: 0, end: 250 }, { do: 'drop', below: 100 }],
  ['is done', { first: 100, end: 250 }, { do: 'nothing' }],
] as const)('%s', (_, target, step) => {
  expect(nextStep(source, target)).toEqual(step);
});

it('has nothing to do for a partition that never had records', () => {
  expect(nextStep({ first: 0, end: 0 }, { first: 0, end: 0 })).toEqual({ do: 'nothing' });
});

it('makes a partition whose records were all removed begin at its end', () => {
  const empty = { first: 40, end: 40 };
  expect(nextStep(empty, { first: 0, end: 0 })).toEqual({ do: 'fill', from: 0, to: 40 });
  expect(nextStep(empty, { first: 0, end: 40 })).toEqual({ do: 'drop', below: 40 });
  expect(nextStep(empty, { first: 40, end: 40 })).toEqual({ do: 'nothing' });
});

describe('what is copied of a partition', () => {
  /** Records by `topic/partition`, from an offset on. */
  function stored(contents: Readonly<Record<string, { first: number; values: readonly string[] }>>) {
    const partitions = Object.entries(contents).map(([name, { first, values }]) => {
      const [topic = '', partition] = name.split('/');
      return { topic, partition: Number(partition), first, end: first + values.length };
    });
    const records = (topic: string, partition: number, from: number) => {
      const { first, values } = contents[`${topic}/${partition}`] ?? { first: 0, values: [] };
      return values
        .map((value, at) => ({ offset: first + at, timestamp: 0, key: '', headers: {}, value }))
        .filter(({ offset }) => offset >= from);
    };
    return { partitions, records };
  }
  const firstsOf = (
    contents: Parameters<typeof stored>[0],
    positions: readonly (readonly [stage: string, topic: string, offset: number])[],
  ) => {
    const { partitions, records } = stored(contents);
    const log = {
      records,
      positions: () =>
        positions.map(([stage, topic, offset]) => ({
          stage,
          topic,
          partition: 0,
          offset,
          index: 0,
          generation: 1,
        })),
    };
    const reads = [
      { stage: 'count', topics: ['events.accepted'] },
      { stage: 'route', topics: ['events.accepted'] },
      { stage: 'replay', topics: ['catalog', 'replays'] },
      { stage: 'deliver', topics: ['deliveries'] },
      { stage: 'deliver.retry', topics: ['deliveries.retry.10s'] },
    ];
    return Object.fromEntries(
      neededPartitions(log, partitions, reads).map(({ topic, first }) => [topic, first]),
    );
  };
  const five = { first: 5, values: ['', '', '', '', ''] };

  it('begins at the slowest stage; without a position, at the beginning', () => {
    const contents = { catalog: five, 'events.accepted': five, 'profiles.changes': five, deliveries: five };
    const named = Object.fromEntries(Object.entries(contents).map(([name, of]) => [`${name}/0`, of]));
    expect(
      firstsOf(named, [
        ['count', 'events.accepted', 9],
        ['route', 'events.accepted', 8],
        ['gone', 'events.accepted', 6],
        ['replay', 'catalog', 10],
      ]),
    ).toEqual({ catalog: 5, 'events.accepted': 8, 'profiles.changes': 10, deliveries: 5 });
  });

  it('is all that a replay reads while one runs', () => {
    const contents = { 'events.accepted/0': five, 'events.rejected/0': five, 'replays/0': five };
    const done = [
      ['count', 'events.accepted', 10],
      ['route', 'events.accepted', 10],
    ] as const;
    const all = { 'events.accepted': 5, 'events.rejected': 5, replays: 9 };
    expect(firstsOf(contents, [...done, ['replay', 'replays', 9]])).toEqual(all);
    const none = { 'events.accepted': 10, 'events.rejected': 10, replays: 10 };
    expect(firstsOf(contents, [...done, ['replay', 'replays', 10]])).toEqual(none);
  });

  it('has what waiting records refer to, over several records, as far as it is kept', () => {
    const contents = {
      'events.accepted/0': five,
      'deliveries/0': {
        first: 0,
        values: ['{"event_at":{"position":"events.accepted/0/6/0","bytes":1,"timestamp":0}}', 'done', 'done'],
      },
      'deliveries.retry.10s/0': {
        first: 0,
        values: ['{"of":"deliveries/0/1/0"}', '{"of":"deliveries/0/0/0"}', '{"of":"deliveries/0/9/0"}'],
      },
    };
    const done = [
      ['count', 'events.accepted', 10],
      ['route', 'events.accepted', 10],
      ['deliver', 'deliveries', 3],
    ] as const;
    const at = (offset: number) =>
      firstsOf(contents, [...done, ['deliver.retry', 'deliveries.retry.10s', offset]]);
    expect(at(1)).toEqual({ 'events.accepted': 6, deliveries: 0, 'deliveries.retry.10s': 1 });
    expect(at(2)).toEqual({ 'events.accepted': 10, deliveries: 3, 'deliveries.retry.10s': 2 });
  });
});
