import { type FunnelIncrement, Unavailable } from '@tributary/core';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const HOUR = 3_600_000;
const RULE = '00000000-0000-4000-8000-0000000000a1';
const PLACE = '00000000-0000-4000-8000-0000000000d1';

interface Counts {
  readonly received?: number;
  readonly accepted?: number;
  readonly matched?: number;
}

interface Funnel {
  readonly from: string;
  readonly to: string;
  readonly interval: string;
  readonly totals: Counts;
  readonly series: readonly { readonly start: string; readonly counts: Counts }[];
  readonly groups?: readonly { readonly group: object; readonly totals: Counts }[];
  readonly left_out?: number;
  readonly behind?: readonly object[];
}

const test = await suiteGateway();
let owner: Client;
let hour: number;
beforeAll(async () => {
  owner = await test.openWorkspace();
  hour = Math.floor(test.clock.now() / HOUR) * HOUR;
  // Half past the hour, so that it does not change during the test.
  test.clock.pass(hour + HOUR / 2 - test.clock.now());
  const increment = (ago: number, changes: Partial<FunnelIncrement> = {}): FunnelIncrement => ({
    workspaceId: String(owner.workspaceId),
    environment: 'production',
    source: 's1',
    key: 'k1',
    type: 'track',
    name: 'Paid',
    rule: '',
    destination: '',
    minute: hour - ago * HOUR,
    measures: 'received+accepted',
    count: 1,
    samples: [`m${ago}`],
    ...changes,
  });
  const ofRule = { rule: RULE, destination: PLACE };
  await test.dependencies.counters.apply({
    topic: 'funnel.counts',
    partition: 0,
    from: 0,
    to: 9,
    increments: [
      increment(0, { count: 5 }),
      increment(0, { count: 2, measures: 'received+rejected/c1/type', samples: ['bad'] }),
      increment(0, { count: 4, name: 'Left', source: 's2', environment: 'development' }),
      increment(0, { ...ofRule, count: 5, measures: 'matched+passed+created' }),
      increment(0, { ...ofRule, count: 4, measures: 'delivered_first', latencies: { 60: 4 } }),
      increment(0, { ...ofRule, measures: 'dead/expired', samples: ['gone'] }),
      increment(23, { count: 3 }),
      increment(30, { count: 7 }),
    ],
  });
});

const read = (query = '') => owner.ok<Funnel>('GET', `./funnel${query}`);
const at = (time: number) => new Date(time).toISOString();

const UNKNOWN_LOAD = {
  lagRecords: 0,
  arrivalPerSecond: undefined,
  drainPerSecond: undefined,
  secondsToEmpty: undefined,
  wantedProcesses: undefined,
  capacityPerProcess: undefined,
};

describe('the funnel', () => {
  it('names the stages that are stopped, as its numbers lack what waits before them', async () => {
    const stageOf = (stage: string, lagSeconds: number | undefined) => ({
      stage,
      sample: { at: 0, members: undefined, partitions: [] },
      load: { ...UNKNOWN_LOAD, lagSeconds },
    });
    const reading = vi.spyOn(test.dependencies.system, 'read').mockResolvedValue({
      at: 0,
      processes: [],
      stages: [stageOf('validate', 0), stageOf('live', undefined), stageOf('funnel', 300.4)],
    });
    onTestFinished(() => reading.mockRestore());
    expect((await read()).behind).toEqual([{ stage: 'funnel', seconds: 300 }]);
    reading.mockRejectedValue(new Unavailable('the log does not answer'));
    expect(await read()).toMatchObject({ totals: { received: 14 } });
  });

  it('has the last day by hours, with totals, reasons and latency', async () => {
    expect(await read()).toEqual({
      from: at(hour - 24 * HOUR),
      to: at(hour + HOUR),
      interval: 'hour',
      totals: {
        received: 14,
        accepted: 12,
        rejected: 2,
        matched: 5,
        passed: 5,
        created: 5,
        delivered_first: 4,
        dead: 1,
        reasons: [
          { measure: 'rejected', reason: 'c1/type', count: 2 },
          { measure: 'dead', reason: 'expired', count: 1 },
        ],
        latency: { deliveries: 4, p50_ms: 97.4, p95_ms: 97.4, p99_ms: 97.4 },
      },
      series: [
        { start: at(hour - 23 * HOUR), counts: { received: 3, accepted: 3 } },
        { start: at(hour), counts: expect.objectContaining({ received: 11, accepted: 9 }) },
      ],
    });
  });

  it('covers the requested range, by an interval that suits the range', async () => {
    const ago = (ms: number) => `?from=${at(hour + HOUR / 2 - ms)}`;
    expect((await read(ago(HOUR / 2))).interval).toBe('minute');
    expect(await read(ago(29 * HOUR))).toMatchObject({ interval: 'hour', totals: { received: 14 } });
    expect(await read(ago(30 * HOUR))).toMatchObject({ interval: 'hour', totals: { received: 21 } });
    expect((await read(ago(30 * 24 * HOUR))).interval).toBe('day');
    expect(await read(`${ago(30 * 24 * HOUR)}&interval=hour`)).toMatchObject({ totals: { received: 21 } });
  });

  it('is filtered by each dimension', async () => {
    expect((await read('?environment=development')).totals).toEqual({ received: 4, accepted: 4 });
    expect((await read('?source=s2')).totals).toEqual({ received: 4, accepted: 4 });
    expect((await read('?name=Left&type=track')).totals).toEqual({ received: 4, accepted: 4 });
    expect((await read('?type=page')).totals).toEqual({});
    expect((await read(`?rule=${RULE}`)).totals).toMatchObject({ matched: 5, dead: 1 });
    expect((await read(`?destination=${PLACE}&name=Paid`)).totals).not.toHaveProperty('received');
  });

  it('is grouped, the largest group first, with a count of the omitted ones', async () => {
    expect(await read('?group_by=type,name')).toMatchObject({
      groups: [
        { group: { type: 'track', name: 'Paid' }, totals: { received: 10 } },
        { group: { type: 'track', name: 'Left' }, totals: { received: 4 } },
      ],
      left_out: 0,
    });
    expect(await read('?group_by=name&limit=1')).toMatchObject({
      groups: [{ group: { name: 'Paid' } }],
      left_out: 1,
    });
  });

  it('refuses hourly groups by name for more than two days, which would read a document for each name and hour', async () => {
    const from = at(hour - 72 * HOUR);
    expect((await owner.call('GET', `./funnel?group_by=name&interval=hour&from=${from}`)).status).toBe(400);
    expect((await read(`?group_by=name&from=${from}`)).interval).toBe('day');
    expect((await read(`?name=Paid&group_by=name&interval=hour&from=${from}`)).interval).toBe('hour');
  });
});

describe('its samples', () => {
  const samples = (query: string) => owner.ok('GET', `./funnel/samples?${query}`);

  it('are the message ids behind a count', async () => {
    expect(await samples('measure=dead')).toEqual({ message_ids: ['gone'] });
    expect(await samples('measure=rejected&reason=c1/type&name=Paid')).toEqual({ message_ids: ['bad'] });
    expect(await samples('measure=accepted&source=s1')).toEqual({ message_ids: ['m0', 'm23'] });
    expect(await samples('measure=accepted&limit=1&source=s1')).toEqual({ message_ids: ['m0'] });
  });
});
