export { violationsOf } from './check.ts';
export { type SimulationOptions, simulateProfiles } from './run.ts';
