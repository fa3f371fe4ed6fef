import type { GrowthOptions } from './growth.ts';
import type { OperationsOptions } from './operations.ts';
import type { ChaosOptions } from './run.ts';
import type { ScalingOptions } from './scaling.ts';

type Form = Omit<ChaosOptions, 'seed'>;

/** For every run of the suite. */
export const SHORT: Form = {
  events: 10_000,
  rate: 1_000,
  kills: 1,
  pauses: 1,
  joins: 1,
  kafkaRestarts: ['kill'],
  drainWithinMs: 120_000,
};

/** For `npm run test:full` and `npm run chaos`. */
export const LONG: Form = {
  events: 201_000,
  rate: 1_000,
  kills: 4,
  pauses: 2,
  joins: 2,
  kafkaRestarts: ['stop', 'kill'],
  drainWithinMs: 600_000,
};

export const SCALING: Omit<ScalingOptions, 'seed'> = {
  events: 201_000,
  phaseMs: 15_000,
  drainWithinMs: 600_000,
};

export const GROWTH: Omit<GrowthOptions, 'seed'> = {
  events: 60_000,
  rate: 300,
  drainWithinMs: 600_000,
};

export const OPERATIONS: OperationsOptions = {
  events: 1_000_000,
  rate: 2_500,
  drainWithinMs: 1_200_000,
};
