import { describe, expect, it } from 'vitest';
import { violationsOf } from './check.ts';
import { type SimulationOptions, simulateProfiles } from './run.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** Runs of each kind; set the seed of a failed run to repeat it alone. */
const SEEDS = process.env.TRIBUTARY_TEST_SEED?.split(',').map(Number) ?? seeds(LONG ? 40 : 1);
const OPERATIONS = LONG ? 1_500 : 600;

const USUAL: Omit<SimulationOptions, 'seed'> = {
  operations: OPERATIONS,
  processes: 6,
  callers: 4,
  people: 8,
  deletionShare: 0,
  eventShare: 0.5,
  nodeCrashMs: 700,
  processCrashMs: 2_000,
  sweepMs: 5_000,
  troubles: { delayMs: 20, unsafeMs: 40, lateShare: 0.01, lateMs: 3_000, timeoutMs: 800 },
};

/** People change devices all the time. */
const FULL = {
  limits: { types: [{ type: 'anonymous_id', max: 2, drop_oldest: true }], user_ids: 100 },
} as const;

describe('a profile store on a node that loses data that it returned keeps every guarantee', () => {
  it.each<[string, Partial<SimulationOptions>]>([
    ['explicit writes that merge, in chains and all at once', { eventShare: 0 }],
    ['events of people who share devices', { eventShare: 1 }],
    ['a quarter deletions, few people', { deletionShare: 0.25, people: 5 }],
    ['events that come long after a deletion', { deletionShare: 0.2, eventShare: 0.9, people: 3 }],
    ['events alone, and unlinks', { eventShare: 1, unlinkShare: 0.2, people: 4 }],
    ['explicit writes that merge, and splits', { eventShare: 0.2, splitShare: 0.2, people: 5 }],
    [
      'splits of a few people, swept all the time, on a node that is slow to make writes durable',
      {
        eventShare: 0.3,
        splitShare: 0.3,
        people: 3,
        nodeCrashMs: 1_500,
        processCrashMs: 3_000,
        sweepMs: 120,
        troubles: { delayMs: 15, unsafeMs: 300, lateShare: 0.03, lateMs: 3_000, timeoutMs: 1_200 },
      },
    ],
    [
      'splits right after merges, of messages that are often late',
      {
        eventShare: 0.2,
        splitShare: 0.35,
        people: 3,
        nodeCrashMs: undefined,
        processCrashMs: undefined,
        troubles: { delayMs: 5, unsafeMs: 5, lateShare: 0.15, lateMs: 300, timeoutMs: 3_000 },
      },
    ],
    [
      'splits, unlinks, deletions and crashes',
      { splitShare: 0.15, unlinkShare: 0.1, deletionShare: 0.05, people: 4, nodeCrashMs: 300 },
    ],
    [
      'full profiles, unlinks, deletions and crashes',
      { ...FULL, unlinkShare: 0.05, deletionShare: 0.05, people: 9, nodeCrashMs: 300 },
    ],
    [
      'many writes of the same time',
      { writeTimeStepMs: 10_000, people: 30, unlinkShare: 0.05, deletionShare: 0.03 },
    ],
    ['nobody crashes', { deletionShare: 0.05, nodeCrashMs: undefined, processCrashMs: undefined }],
    ['crashes all the time', { deletionShare: 0.03, people: 5, nodeCrashMs: 200, processCrashMs: 400 }],
    [
      'writes that are seen long before they are durable',
      {
        deletionShare: 0.06,
        people: 6,
        nodeCrashMs: 1_500,
        troubles: { delayMs: 15, unsafeMs: 400, lateShare: 0.01, lateMs: 3_000, timeoutMs: 1_500 },
      },
    ],
    [
      'hardly anybody, swept all the time',
      {
        deletionShare: 0.12,
        people: 2,
        nodeCrashMs: 1_500,
        processCrashMs: 3_000,
        sweepMs: 120,
        troubles: { delayMs: 15, unsafeMs: 300, lateShare: 0.02, lateMs: 3_000, timeoutMs: 1_200 },
      },
    ],
  ])(
    '%s',
    async (_, changed) => {
      for (const seed of SEEDS) {
        const run = await simulateProfiles({ ...USUAL, ...changed, seed });
        expect({ seed, violations: await violationsOf(run) }).toEqual({ seed, violations: [] });
        // A run with hardly any answers proves nothing.
        const answered = run.attempts.filter(({ endedAt }) => endedAt !== undefined).length;
        expect(answered).toBeGreaterThan(OPERATIONS / 20);
      }
    },
    LONG ? 900_000 : 60_000,
  );
});

function seeds(count: number): readonly number[] {
  return Array.from({ length: count }, (_, n) => n + 1);
}
