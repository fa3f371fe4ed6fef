import {
  type Alert,
  type AlertChange,
  applyFact,
  CatalogState,
  type Draft,
  type Fact,
  type FunnelQuery,
  type FunnelRow,
  NO_LOGGER,
  NO_METRICS,
  type PartitionLag,
  type StageSample,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { AlertRounds, CountProgress } from './alert-rounds.ts';

const ROUND = 60_000;
const NOW = Date.parse('2026-03-19T10:00:30Z');
const from = { address: '', request_id: '' };
const at = '2026-01-01T00:00:00.000Z';
const IDLE: StageSample = { at: 0, members: 1, partitions: [] };

/** A workspace with an alert on violations, and processes that evaluate it, by a clock of the test. */
function setUp(alerts: readonly Partial<Draft<Alert>>[] = [{}]) {
  vi.useFakeTimers({ now: NOW });
  onTestFinished(() => void vi.useRealTimers());
  const state = new CatalogState();
  const facts: Fact[] = [];
  const add = (fact: object) => {
    facts.push({ v: 1, by: 'a', from, at, ...fact } as Fact);
    return applyFact(state, facts.at(-1) as Fact, facts.length - 1);
  };
  const workspace = { id: 'w', name: 'w', organization_id: 'o', region: 'eu', status: 'active' };
  const organization = { id: 'o', name: 'o', regions: ['eu'], notification_email: null };
  add({ type: 'workspace.created', entity: 'w', data: { workspace, organization } });
  const watch = {
    kind: 'violations',
    source_id: null,
    event_type: null,
    event_name: null,
    minutes: 30,
    share: 0.05,
    minimum: 20,
  } as const;
  const fields = { workspace_id: 'w', environment: 'production', time_zone: 'UTC', quiet_hours: null };
  const rest = { enabled: true, destination_id: null, email: null, created_by: 'a' };
  alerts.forEach((own, n) => {
    const id = `a${n}`;
    add({ type: 'alert.created', entity: id, data: { id, name: id, watch, ...fields, ...rest, ...own } });
  });
  const world = {
    bad: 0,
    stages: IDLE as StageSample | undefined,
    isDown: false,
    isOwner: true,
    queries: [] as FunnelQuery[],
  };
  const read = async (query: FunnelQuery): Promise<readonly FunnelRow[]> => {
    if (world.isDown) throw new Unavailable('away');
    world.queries.push(query);
    const start = Math.floor(Date.now() / ROUND) * ROUND - 5 * ROUND;
    const counts = { received: 100, 'rejected/c/x': world.bad };
    return start >= query.from && start < query.to ? [{ group: {}, start, counts, latencies: {} }] : [];
  };
  const start = () => {
    const rounds = new AlertRounds({
      catalog: { state, propose: async (fact) => add(fact) },
      read,
      samples: async () =>
        new Map(
          world.stages === undefined
            ? []
            : [
                ['validate', world.stages],
                ['funnel', world.stages],
              ],
        ),
      isOwner: () => world.isOwner,
      clock: Date.now,
      elapsed: Date.now,
      logger: NO_LOGGER,
      metrics: NO_METRICS,
      roundMs: ROUND,
      everyMs: 60 * ROUND,
    });
    rounds.begin();
    onTestFinished(() => rounds.close());
    return rounds;
  };
  const turns = () => facts.flatMap((fact) => (fact.type === 'alert.turned' ? [fact] : []));
  return { world, start, add, turns, state };
}

const states = (turns: readonly { readonly data: AlertChange }[]) => turns.map(({ data }) => data.state);
const pass = (rounds: number) => vi.advanceTimersByTimeAsync(rounds * ROUND);

describe('alerts are evaluated', () => {
  it('and a change is proposed once, with the counts of all received events', async () => {
    const { world, start, turns } = setUp();
    start();
    await pass(3);
    expect(turns()).toEqual([]);
    world.bad = 30;
    await pass(3);
    expect(turns()).toMatchObject([
      {
        entity: 'a0',
        expected_version: 0,
        by: 'stage:notice',
        data: { state: 'firing', value: 0.3, limit: 0.05, expected: null },
      },
    ]);
    world.bad = 0;
    await pass(3);
    expect(states(turns())).toEqual(['firing', 'ok']);
  });

  it('by the next process after a kill: the catalog has the reported state', async () => {
    const { world, start, turns } = setUp();
    world.bad = 30;
    const killed = start();
    await pass(3);
    await killed.close();
    start();
    start();
    await pass(3);
    expect(states(turns())).toEqual(['firing']);
  });

  it('by several processes at the same time: the catalog applies one of their proposals', async () => {
    const { world, start, turns, state } = setUp();
    world.bad = 30;
    for (let n = 0; n < 3; n++) start();
    await pass(3);
    expect(turns().every(({ expected_version }) => expected_version === 0)).toBe(true);
    expect(state.entity('alert', 'w', 'a0')?.condition?.turns).toBe(1);
  });

  it('not while events are not counted, or by a process without the partition of notice', async () => {
    const { world, start, turns } = setUp();
    world.bad = 30;
    world.stages = undefined;
    start();
    await pass(5);
    world.stages = {
      ...IDLE,
      partitions: [{ topic: 't', partition: 0, position: 0, end: 9, lag: 9, oldestAt: NOW - 20 * ROUND }],
    };
    await pass(5);
    world.stages = IDLE;
    world.isOwner = false;
    await pass(5);
    expect(turns()).toEqual([]);
    world.isOwner = true;
    await pass(3);
    expect(states(turns())).toEqual(['firing']);
  });

  it('again once an engine answers after an outage', async () => {
    const { world, start, turns } = setUp();
    world.bad = 30;
    world.isDown = true;
    start();
    await pass(5);
    expect(turns()).toEqual([]);
    world.isDown = false;
    await pass(3);
    expect(states(turns())).toEqual(['firing']);
  });

  it('with shared reads for all alerts of a workspace', async () => {
    const { world, start } = setUp(Array.from({ length: 20 }, () => ({})));
    start();
    await pass(3);
    const before = world.queries.length;
    await pass(10);
    expect(world.queries.length - before).toBeLessThanOrEqual(11);
  });

  it('unless they are disabled, their workspace is archived, or their destination is paused', async () => {
    const watch = { kind: 'backlog', destination_id: 'd', minutes: 60 } as const;
    const { world, start, add, turns } = setUp([{ enabled: false }, { watch }]);
    const destination = { id: 'd', workspace_id: 'w', name: 'd', type: 't', settings: {}, created_by: 'a' };
    add({ type: 'destination.created', entity: 'd', data: { ...destination, enabled: true, paused: true } });
    world.bad = 30;
    start();
    await pass(5);
    expect(world.queries).toEqual([]);
    add({ type: 'alert.updated', entity: 'a0', data: { enabled: true } });
    add({ type: 'workspace.archived', entity: 'w', data: {} });
    await pass(5);
    expect(world.queries).toEqual([]);
    expect(turns()).toEqual([]);
  });
});

const lag = (of: Partial<PartitionLag>): PartitionLag => ({
  topic: 't',
  partition: 0,
  position: 0,
  end: 0,
  lag: 0,
  ...of,
});
const sample = (...partitions: readonly PartitionLag[]): StageSample => ({ at: 0, members: 1, partitions });
const AT_REST = sample(lag({}));
const behind = (oldestAt: number) => sample(lag({}), lag({ lag: 3, oldestAt }));
const UNKNOWN_AGE = sample(lag({ lag: 3 }));

/** Samplings at times in order, one ms long. */
function follow(
  ...samplings: readonly (readonly [at: number, StageSample | undefined, StageSample | undefined])[]
) {
  const progress = new CountProgress();
  return samplings.map(([at, validate, funnel]) =>
    progress.add({ beganAt: at, endedAt: at + 1, validate, funnel }),
  );
}

describe('events are counted', () => {
  it('until the sampling before, while all stages keep up', () => {
    const [first, second, third] = follow(
      [100, AT_REST, AT_REST],
      [200, AT_REST, AT_REST],
      [300, AT_REST, AT_REST],
    );
    expect(first).toEqual({ events: undefined, deliveries: 100 });
    expect(second).toEqual({ events: 100, deliveries: 200 });
    expect(third).toEqual({ events: 200, deliveries: 300 });
  });

  it('until the oldest event that is not validated', () => {
    const all = follow(
      [100, AT_REST, AT_REST],
      [200, behind(120), AT_REST],
      [300, behind(150), AT_REST],
      [400, AT_REST, AT_REST],
      [500, AT_REST, AT_REST],
    );
    expect(all.map(({ events }) => events)).toEqual([undefined, 100, 120, 150, 400]);
  });

  it('until the events validated before the oldest count that is not stored', () => {
    const all = follow(
      [100, AT_REST, AT_REST],
      [200, behind(120), behind(150)],
      [300, AT_REST, behind(250)],
      [400, AT_REST, behind(290)],
      [500, AT_REST, AT_REST],
    );
    // At 250 validate was where it was sampled at 201: at 120.
    expect(all.map(({ events }) => events)).toEqual([undefined, 100, 120, 120, 400]);
    expect(all.map(({ deliveries }) => deliveries)).toEqual([100, 150, 250, 290, 500]);
  });

  it('to an unknown time, where a stage or the age of its lag is unknown', () => {
    for (const stage of [undefined, UNKNOWN_AGE]) {
      expect(follow([100, AT_REST, AT_REST], [200, AT_REST, stage])[1]).toEqual({
        events: undefined,
        deliveries: undefined,
      });
      expect(follow([100, stage, AT_REST], [200, stage, AT_REST])[1]?.events).toBeUndefined();
    }
  });
});
