import { describe, expect, it } from 'vitest';
import { organizationScope } from '../funnel/bytes.ts';
import type { DiskLevel } from './disk-level.ts';
import {
  fairHeld,
  fairLastHour,
  organizationLimits,
  overLimits,
  overShare,
  StorageBudgets,
  type StorageLimits,
  type StorageUsage,
  storageLimitsOf,
} from './storage-budget.ts';

const HOUR = 3_600_000;
const MIB = 2 ** 20;
const NOW = Date.parse('2026-03-04T05:45:00.000Z');
const UNLIMITED: StorageLimits = {
  bytesPerHour: Number.POSITIVE_INFINITY,
  bytesHeld: Number.POSITIVE_INFINITY,
};
const SHARE = { lastHour: 100 * MIB, held: 1_000 * MIB };

function usage(changes: Partial<StorageUsage> = {}): StorageUsage {
  return { received: 0, written: 0, lastHour: 0, held: 0, ...changes };
}

describe('the verdict on a workspace', () => {
  const verdict = (used: Partial<StorageUsage>, limits: Partial<StorageLimits>) =>
    overLimits(usage(used), { ...UNLIMITED, ...limits }, NOW);
  const shareVerdict = (used: Partial<StorageUsage>, disk: DiskLevel) => overShare(usage(used), SHARE, disk);

  it('names the budget of the hour, until the next one begins', () => {
    expect(verdict({ written: 1_000 }, { bytesPerHour: 1_000 })).toEqual({
      action: 'refuse',
      budget: 'bytes_per_hour',
      used: 1_000,
      limit: 1_000,
      retryAfterMs: HOUR / 4,
    });
  });

  it('names the bytes that the log holds before those of the hour, as these end sooner', () => {
    const limits = { bytesPerHour: 1, bytesHeld: 5 };
    expect(verdict({ written: 2, held: 7 }, limits)).toMatchObject({
      budget: 'bytes_held',
      used: 7,
      limit: 5,
    });
  });

  it.each([
    ['enough', undefined, undefined],
    ['scarce', 'stop_output', undefined],
    ['low', 'refuse', undefined],
    ['exhausted', 'refuse', undefined],
    ['full', 'refuse', undefined],
  ] as const)(
    'on a disk with the level %s stops only organizations with more than a fair share',
    (level, large, small) => {
      expect(shareVerdict({ lastHour: 101 * MIB }, level)?.action).toBe(large);
      expect(shareVerdict({ held: 1_001 * MIB }, level)?.action).toBe(large);
      expect(shareVerdict({ lastHour: 100 * MIB, held: 1_000 * MIB }, level)?.action).toBe(small);
    },
  );
});

describe('a fair share', () => {
  it('of what is held is the mean of the users, and at least half of the largest', () => {
    expect(fairHeld([9_000 * MIB, 0, 300 * MIB, 300 * MIB])).toBe(4_500 * MIB);
    expect(fairHeld([900 * MIB, 600 * MIB, 750 * MIB])).toBe(750 * MIB);
  });

  it('was so small beside many idle workspaces that all who sent events were stopped first', () => {
    const idle = Array.from({ length: 300 }, () => 1);
    const busy = Array.from({ length: 20 }, () => 1_000 * MIB);
    expect(fairHeld([...idle, ...busy, 20_000 * MIB])).toBe(10_000 * MIB);
  });

  it('stopped a small workspace on a disk that others fill: it has a floor', () => {
    expect(fairHeld([9, 1])).toBe(64 * MIB);
  });

  it('of a single workspace is all: on its own disk it stopped at half', () => {
    expect(fairHeld([800 * MIB])).toBe(Number.POSITIVE_INFINITY);
  });

  it('of the last hour becomes smaller with the space until events of everyone are refused', () => {
    expect(fairLastHour({ free: 200, reserve: 100 })).toBe(360);
    expect(fairLastHour({ free: 21, reserve: 100 })).toBe(2);
    expect(fairLastHour({ free: 20, reserve: 100 })).toBe(0);
  });

  it('of the last hour is of the time when the stages have written everything, and those who add little go on', () => {
    expect(fairLastHour({ free: 200, reserve: 100 }, 60)).toBe(240);
    expect(fairLastHour({ free: 180, reserve: 100 }, 900)).toBe(5);
  });
});

it('an operator sets one budget of a workspace, or none; the others are those of the installation', () => {
  const defaults = { bytesPerHour: 5, bytesHeld: 7 };
  expect(storageLimitsOf({}, defaults)).toEqual(defaults);
  expect(storageLimitsOf({ storage: { bytes_per_hour: 50 } }, defaults)).toEqual({
    ...defaults,
    bytesPerHour: 50,
  });
  expect(storageLimitsOf({ storage: { bytes_held: null } }, defaults).bytesHeld).toBe(
    Number.POSITIVE_INFINITY,
  );
});

const RESERVE = 200 * MIB;
/** Small organizations of one account. */
const SEVERAL = Array.from({ length: 50 }, (_, n) => `o${100 + n}`);
const CREATORS: Readonly<Record<string, string>> = {
  o8: 'neighbour',
  ...Object.fromEntries(SEVERAL.map((id) => [id, 'attacker'])),
};
/** Small workspaces of one organization. */
const MANY = Array.from({ length: 50 }, (_, n) => `small${n}`);

describe('the usage that a process knows', () => {
  function setUp(limits: Partial<StorageLimits> = {}) {
    const world = { now: NOW, free: 1_000 * MIB };
    const workspaces = new Map<string, object>([
      ['neighbour', { organization_id: 'o8' }],
      ['exempt', { organization_id: 'o7', storage: { bytes_per_hour: 20_000 } }],
      ...['w1', 'w2', ...MANY].map((id) => [id, { organization_id: 'o7' }] as const),
      ...SEVERAL.map((id) => [`of-${id}`, { organization_id: id }] as const),
    ]);
    const budgets = new StorageBudgets({
      limits: { ...UNLIMITED, bytesPerHour: 1_000, ...limits },
      catalog: {
        state: {
          workspace: (id: string) => workspaces.get(id),
          organization: (id: string) => ({ id, org_id: Number(id.slice(1)), created_by: CREATORS[id] }),
          organizationByOrgId: (id: number) => ({ id: `o${id}`, org_id: id }),
        } as never,
      },
      diskRoom: () => ({ free: world.free, reserve: RESERVE }),
      clock: () => world.now,
    });
    const hour = NOW - (NOW % HOUR);
    const written = (scope: string, bytes: number) => ({ scope, received: 0, written: bytes });
    return { budgets, world, hour, written };
  }

  it('has its own writes at once, on top of what was read before, and none of them twice', () => {
    const { budgets, hour, written } = setUp();
    budgets.readHours(hour, [written('w1', 600)], []);
    budgets.add([written('w1', 300)]);
    expect(budgets.usageOf('w1').written).toBe(900);
    expect(budgets.verdictOf('w1')).toBeUndefined();
    // The store has a part of them by now, then all, then those of another process as well.
    for (const [read, expected] of [
      [700, 900],
      [900, 900],
      [950, 950],
    ] as const) {
      budgets.readHours(hour, [written('w1', read)], []);
      expect(budgets.usageOf('w1').written).toBe(expected);
    }
    budgets.add([written('w1', 60)]);
    expect(budgets.verdictOf('w1')).toMatchObject({
      action: 'refuse',
      budget: 'bytes_per_hour',
      used: 1_010,
    });
    expect(budgets.verdictOf('w2')).toBeUndefined();
  });

  it('begins anew with each hour, and the last hour passes gradually', () => {
    const { budgets, world, hour, written } = setUp();
    budgets.add([written('w1', 1_200)]);
    expect(budgets.verdictOf('w1')?.action).toBe('refuse');
    world.now = hour + HOUR + HOUR / 4;
    expect(budgets.verdictOf('w1')).toBeUndefined();
    expect(budgets.usageOf('w1')).toMatchObject({ written: 0, lastHour: 900 });
    // A reading that began in the hour before.
    budgets.readHours(hour, [written('w1', 1_300)], []);
    expect(budgets.usageOf('w1').written).toBe(0);
    world.now += 2 * HOUR;
    expect(budgets.usageOf('w1').lastHour).toBe(0);
  });

  it('of profile changes counts for the organization and all its workspaces', () => {
    const { budgets, written } = setUp();
    budgets.add([written(organizationScope(7), 1_000)]);
    expect(budgets.verdictOfProfiles(7)?.budget).toBe('bytes_per_hour');
    expect(budgets.verdictOf('w2')?.budget).toBe('bytes_per_hour');
    expect(budgets.verdictOfProfiles(8)).toBeUndefined();
  });

  it('of what the log holds shrinks with the log', () => {
    const { budgets } = setUp({ bytesHeld: 500 });
    budgets.readHeld(new Map([['w1', 500]]));
    expect(budgets.verdictOf('w1')?.budget).toBe('bytes_held');
    budgets.readHeld(new Map([['w1', 499]]));
    expect(budgets.verdictOf('w1')).toBeUndefined();
    budgets.readHeld(new Map());
    expect(budgets.usageOf('w1').held).toBe(0);
  });

  it('stops the organization that fills the disk with many small workspaces, and not its neighbour', () => {
    const { budgets, world, hour, written } = setUp({ bytesPerHour: Number.POSITIVE_INFINITY });
    budgets.readHours(hour, [...MANY.map((id) => written(id, 15 * MIB)), written('neighbour', 40 * MIB)], []);
    expect(budgets.verdictOf('small3')).toBeUndefined();
    world.free = 160 * MIB;
    expect(budgets.verdictOf('small3')).toMatchObject({
      action: 'refuse',
      budget: 'disk_share',
      used: 750 * MIB,
    });
    // A workspace that was made only now.
    expect(budgets.verdictOf('w2')).toMatchObject({ budget: 'disk_share' });
    expect(budgets.verdictOfProfiles(7)).toMatchObject({ budget: 'disk_share' });
    expect(budgets.verdictOf('neighbour')).toBeUndefined();
    expect(budgets.over().get('disk_share')).toBe(1);
  });

  const sent = (scope: string, received: number) => ({ scope, received, written: received });

  it('stops the organization whose plain events fill the disk while there is space for its neighbour', () => {
    const { budgets, world, hour } = setUp({ bytesPerHour: Number.POSITIVE_INFINITY });
    budgets.readHours(hour, [sent('w1', 400 * MIB), sent('neighbour', 40 * MIB)], []);
    world.free = 169 * MIB;
    expect(budgets.verdictOf('w1')).toMatchObject({ action: 'refuse', budget: 'disk_share' });
    expect(budgets.verdictOf('neighbour')).toBeUndefined();
  });

  it('of many small organizations of one account is one share of the disk: together they filled it', () => {
    const { budgets, world, hour } = setUp({ bytesPerHour: Number.POSITIVE_INFINITY });
    const small = SEVERAL.map((id) => sent(`of-${id}`, 5 * MIB));
    world.free = 160 * MIB;
    budgets.readHours(hour, [...small, sent('neighbour', 40 * MIB)], []);
    for (const id of SEVERAL) expect(budgets.verdictOf(`of-${id}`)).toMatchObject({ action: 'refuse' });
    expect(budgets.verdictOf('neighbour')).toBeUndefined();
  });

  it('was refused when its events had filled the disk that they were still to be copied to: unprocessed bytes count', () => {
    const { budgets, world, hour } = setUp({ bytesPerHour: Number.POSITIVE_INFINITY });
    budgets.readHours(hour, [sent('w1', 200 * MIB), sent('neighbour', MIB)], []);
    world.free = 320 * MIB;
    expect(budgets.verdictOf('w1')).toBeUndefined();
    budgets.add([{ scope: 'w1', received: 90 * MIB, written: 0 }]);
    expect(budgets.verdictOf('w1')).toMatchObject({ action: 'refuse', budget: 'disk_share' });
    expect(budgets.verdictOf('neighbour')).toBeUndefined();
    budgets.readHours(hour, [sent('w1', 290 * MIB)], []);
    expect(budgets.verdictOf('w1')).toBeUndefined();
  });

  it('was refused only when the stage `profile` had filled the disk: what it is expected to write counts', () => {
    const { budgets, world, hour } = setUp({ bytesPerHour: Number.POSITIVE_INFINITY });
    world.free = 600 * MIB;
    const of = (expected: number) => [{ ...sent('w1', 90 * MIB), expected }, sent('neighbour', MIB)];
    budgets.readHours(hour, of(470 * MIB), []);
    expect(budgets.verdictOf('w1')).toMatchObject({ action: 'refuse', budget: 'disk_share' });
    expect(budgets.verdictOf('neighbour')).toBeUndefined();
    // A stage has written a part of it in this hour, which was handed on in the hour before.
    budgets.readHours(hour, of(-300 * MIB), of(470 * MIB));
    expect(budgets.verdictOf('w1')).toBeUndefined();
  });

  it('began anew with the hour while its events still waited: those of the hour before count', () => {
    const { budgets, world, hour } = setUp({ bytesPerHour: Number.POSITIVE_INFINITY });
    budgets.readHours(hour, [sent('w1', 30 * MIB), sent('neighbour', MIB)], []);
    budgets.add([{ scope: 'w1', received: 80 * MIB, written: 0 }]);
    budgets.readHeld(
      new Map([
        ['w1', 140 * MIB],
        ['neighbour', 2 * MIB],
      ]),
    );
    world.now = hour + HOUR;
    world.free = 640 * MIB;
    const before = [sent('w1', 30 * MIB), sent('neighbour', MIB)];
    budgets.readHours(hour + HOUR, [], before);
    expect(budgets.verdictOf('w1')).toMatchObject({ action: 'refuse', budget: 'disk_share' });
    budgets.readHours(hour + HOUR, [sent('w1', 70 * MIB)], before);
    expect(budgets.verdictOf('w1')).toBeUndefined();
    // An event that the log refused is never processed.
    world.now = hour + 2 * HOUR;
    world.free = 230 * MIB;
    budgets.readHours(hour + 2 * HOUR, [], [sent('w1', 70 * MIB)]);
    expect(budgets.verdictOf('w1')).toBeUndefined();
  });

  it('of the workspaces of an organization together is at most four times that of one', () => {
    const { budgets, hour, written } = setUp();
    budgets.readHours(hour, [...MANY.slice(1).map((id) => written(id, 80)), written('neighbour', 999)], []);
    expect(budgets.verdictOf('w1')).toBeUndefined();
    budgets.add([written(organizationScope(7), 79), written('small0', 1)]);
    expect(budgets.verdictOf('w1')).toMatchObject({
      action: 'refuse',
      budget: 'organization_bytes_per_hour',
      used: 4_000,
      limit: 4_000,
    });
    expect(budgets.verdictOfProfiles(7)?.budget).toBe('organization_bytes_per_hour');
    expect(budgets.verdictOf('neighbour')).toBeUndefined();
  });

  it('of a workspace with a budget of its own does not stop the others of its organization', () => {
    const { budgets, hour, written } = setUp();
    budgets.readHours(hour, [written('exempt', 19_000), written('w1', 900)], []);
    for (const id of ['exempt', 'w1']) expect(budgets.verdictOf(id)).toBeUndefined();
    expect(
      organizationLimits({ bytesPerHour: 5, bytesHeld: 7 }, [{ bytes_per_hour: null }, { bytes_held: 50 }]),
    ).toEqual({
      bytesPerHour: Number.POSITIVE_INFINITY,
      bytesHeld: 78,
    });
  });
});
