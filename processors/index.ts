/** The stages of the pipeline. */
export * from './options.ts';
export * from './pipeline.ts';
export * from './redrive/redrive.ts';
export { RunMetrics } from './route/run-metrics.ts';
export * from './stage-reads.ts';
