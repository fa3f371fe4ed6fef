/** The stages of the pipeline, for who chooses some of them before anything is opened. */
export const STAGE_NAMES = [
  'validate',
  'validate.slow',
  'count',
  'live',
  'profile',
  'history',
  'audit',
  'mail',
  'route',
  'route.slow',
  'replay',
  'notice',
  'deliver',
  'deliver.slow',
  'deliver.retry',
] as const;

/** Those that read the facts of the catalog: nothing is dropped of it before they have taken it. */
export const CATALOG_STAGES: readonly StageName[] = ['audit', 'replay', 'notice'];

export type StageName = (typeof STAGE_NAMES)[number];
