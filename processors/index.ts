/** The stages of the pipeline. */
export * from './options.ts';
export * from './pipeline.ts';
export { RunFigures } from './route/run-figures.ts';
export * from './stage-names.ts';
