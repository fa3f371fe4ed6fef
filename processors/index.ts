/** The stages of the pipeline. */
export { AlertRounds } from './alerts/alert-rounds.ts';
export type { Loads } from './load/loads.ts';
export * from './pipeline.ts';
export * from './redrive/redrive.ts';
export { RunMetrics } from './route/run-metrics.ts';
export * from './stages.ts';
