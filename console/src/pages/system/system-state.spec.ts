import { describe, expect, it } from 'vitest';
import {
  byLag,
  calmText,
  doesNotShrink,
  isBehind,
  ownershipOf,
  type Partition,
  type Process,
  problemsOf,
  processesMatching,
  rangesText,
  type Stage,
  type System,
  stagesMatching,
} from './system-state.ts';

const AT = '2026-03-01T09:30:00.000Z';

const process = (id: string, changes: Partial<Process> = {}): Process => ({
  process: id,
  role: 'processor',
  host: `host-${id}`,
  pid: 7,
  version: '0.2.0',
  commit: null,
  node: '24.0.0',
  started_at: AT,
  reported_at: AT,
  state: 'ready',
  checks: { catalog: 'caught up' },
  memory_bytes: 1,
  stages: [{ stage: 'deliver', topics: [{ topic: 'deliveries', partitions: [0, 1] }] }],
  ...changes,
});

const partition = (number: number, lag: number, owner: string | null): Partition => ({
  partition: number,
  position: 0,
  end: lag,
  lag,
  oldest_at: null,
  process: owner,
});

const stage = (name: string, changes: Partial<Stage> = {}): Stage => ({
  stage: name,
  members: 1,
  lag_records: 0,
  lag_seconds: null,
  arrival_per_second: 1,
  drain_per_second: 1,
  seconds_to_empty: null,
  wanted_processes: null,
  topics: [],
  ...changes,
});

const system = (changes: Partial<System> = {}): System => ({
  at: AT,
  versions: [{ version: '0.2.0', commit: null, processes: 1 }],
  stages: [stage('deliver')],
  processes: [process('a')],
  engines: [{ engine: 'redis', version: '7', state: 'answers', processes: [] }],
  ...changes,
});

describe('the problems of an installation', () => {
  it('are empty where there is none', () => {
    expect(problemsOf(system())).toEqual([]);
  });

  it.each([
    [
      'nothing is wrong',
      {},
      true,
      /^1 of 1 process ready, 1 of 1 engine answer; no stage is behind by more than 1 min\.$/,
    ],
    ['no process reports', { processes: [] }, false, /^0 of 0 processes ready/],
    [
      'a lag grows',
      {
        stages: [
          stage('route', { lag_records: 9, lag_seconds: 20, seconds_to_empty: null, drain_per_second: -1 }),
        ],
      },
      false,
      /more records arrive than are processed in route\.$/,
    ],
  ] as const)(
    'every process was said to be ready and no stage behind: %s',
    (_state, changes, isCalm, text) => {
      const { processes, stages, ...rest } = { ...system(), ...changes };
      const calm = calmText({ ...rest, processes: [...processes], stages: [...stages] });
      expect(calm).toEqual({ isCalm, text: expect.stringMatching(text) });
    },
  );

  it('are engines, processes that are not ready and unowned partitions, then late, silent or mixed stages', () => {
    const orphaned = stage('deliver', {
      lag_records: 12,
      lag_seconds: 3_700,
      seconds_to_empty: null,
      wanted_processes: 3,
      topics: [
        { topic: 'deliveries', lag_records: 12, oldest_at: AT, partitions: [partition(0, 12, null)] },
        { topic: 'deliveries.retry.10m', lag_records: 9, oldest_at: AT, partitions: [partition(0, 9, null)] },
      ],
    });
    const problems = problemsOf(
      system({
        stages: [orphaned],
        processes: [
          process('a'),
          process('b', { state: 'silent' }),
          process('c', { state: 'not ready', checks: { kafka: 'does not answer' } }),
        ],
        versions: [
          { version: '0.1.0', commit: 'abc', processes: 1 },
          { version: '0.2.0', commit: null, processes: 2 },
        ],
        engines: [
          {
            engine: 'redis',
            version: null,
            state: 'refuses writes',
            processes: [
              { process: 'a', state: 'answers' },
              { process: 'c', state: 'refuses writes' },
            ],
          },
        ],
      }),
    );
    expect(problems.map(({ severity, title }) => [severity, title])).toEqual([
      ['error', 'redis: refuses writes'],
      ['error', 'processor host-c:7 is not ready'],
      ['error', 'deliver: no process reads 1 partition with records'],
      ['warning', 'deliver is behind by 1 h 1 min'],
      ['warning', '1 process without a report'],
      ['warning', 'Processes of several releases run together'],
    ]);
    expect(problems[0]?.text).toBe('Seen by 1 of 2 processes.');
    expect(problems[1]?.text).toBe('kafka: does not answer');
    expect(problems[3]?.text).toBe(
      '12 records are left, and more arrive than are processed. It needs 3 processes to keep up, and has 1.',
    );
    expect(problems[5]?.text).toContain('0.1.0 (abc) in 1 process, 0.2.0 in 2 processes');
  });
});

it('a stage is behind by the age of its oldest record, not by its records', () => {
  expect(isBehind(stage('route', { lag_records: 100_000, lag_seconds: 3 }))).toBe(false);
  expect(isBehind(stage('route', { lag_records: 1, lag_seconds: 61 }))).toBe(true);
  expect(doesNotShrink(stage('route', { lag_records: 1, drain_per_second: null }))).toBe(false);
  expect(doesNotShrink(stage('route', { lag_records: 1 }))).toBe(true);
});

it('a filter finds stages by name and topic, and processes by what people know them by', () => {
  const topics = [{ topic: 'events.accepted', lag_records: 0, oldest_at: null, partitions: [] }];
  const stages = [stage('route', { topics }), stage('deliver', { lag_records: 5, lag_seconds: 90 })];
  const names = (search: Parameters<typeof stagesMatching>[1]) =>
    stagesMatching(stages, search).map(({ stage }) => stage);
  expect(names({})).toEqual(['route', 'deliver']);
  expect(names({ q: 'ACCEPTED' })).toEqual(['route']);
  expect(names({ show: 'behind' })).toEqual(['deliver']);
  const processes = [process('a'), process('b', { role: 'gateway', stages: [] })];
  const found = (q: string) => processesMatching(processes, q).map(({ process }) => process);
  expect(found('gateway')).toEqual(['b']);
  expect(found('host-a')).toEqual(['a']);
  expect(found('deliver')).toEqual(['a']);
});

it('partitions are listed by process, unowned ones first, as ranges', () => {
  const owned = ownershipOf(
    [
      partition(3, 1, 'a'),
      partition(0, 5, 'b'),
      partition(2, 0, 'b'),
      partition(1, 0, 'b'),
      partition(9, 2, null),
    ],
    [process('a'), process('b')],
  );
  expect(
    owned.map(({ process, partitions, lag }) => [process?.process, rangesText(partitions), lag]),
  ).toEqual([
    [undefined, '9', 2],
    ['b', '0-2', 5],
    ['a', '3', 1],
  ]);
  expect(rangesText([])).toBe('');
  expect(rangesText([7, 0, 1, 2, 3, 9, 10])).toBe('0-3, 7, 9-10');
  expect(
    byLag([partition(1, 0, null), partition(0, 0, null), partition(2, 4, null)]).map((one) => one.partition),
  ).toEqual([2, 0, 1]);
});
