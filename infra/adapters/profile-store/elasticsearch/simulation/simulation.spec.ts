import { describe, expect, it } from 'vitest';
import { violationsOf } from './check.ts';
import { type SimulationOptions, simulate } from './run.ts';

const SEEDS = Number(process.env.SEEDS ?? 5);
const FIRST = Number(process.env.FIRST ?? 1);

const BASE: Omit<SimulationOptions, 'seed'> = {
  operations: 1_000,
  processes: 6,
  callers: 4,
  people: 8,
  deletionShare: 0,
  eventShare: 0.5,
  operationsANodeCrash: 60,
  operationsAProcessCrash: 40,
  troubles: { delayMs: 20, lateShare: 0.03, lateMs: 3_000, timeoutMs: 800 },
};

describe('the protocol', () => {
  it.each([
    ['merges', { eventShare: 0 }],
    ['events', { eventShare: 1 }],
    ['both', {}],
    ['deletes', { deletionShare: 0.1 }],
    ['many deletes', { deletionShare: 0.25, people: 5 }],
    ['calm', { deletionShare: 0.05, operationsANodeCrash: 1e9, operationsAProcessCrash: 1e9 }],
    ['crowd', { people: 3, deletionShare: 0.05 }],
    ['wide', { people: 60 }],
  ])(
    '%s',
    async (_, changed) => {
      for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
        const startedAt = performance.now();
        const run = await simulate({ ...BASE, ...changed, seed });
        const violations = await violationsOf(run);
        const written = run.attempts.filter(
          (one) => one.kind === 'write' && one.answer?.kind === 'written',
        ).length;
        console.log(
          seed,
          run.crashes,
          written,
          run.attempts.length,
          run.node.acknowledged,
          run.node.lost,
          Math.round(performance.now() - startedAt),
        );
        expect({ seed, violations }).toEqual({ seed, violations: [] });
      }
    },
    600_000,
  );
});
