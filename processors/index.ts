/** The stages of the pipeline. */
export * from './options.ts';
export * from './pipeline.ts';
export * from './redrive/given-up.ts';
export * from './redrive/redrive.ts';
export { RunFigures } from './route/run-figures.ts';
export * from './stage-names.ts';
