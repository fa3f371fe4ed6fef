/** The stages of the pipeline, for who chooses some of them before anything is opened. */
export const STAGE_NAMES = [
  'validate',
  'count',
  'live',
  'profile',
  'history',
  'audit',
  'mail',
  'route',
  'route.slow',
  'deliver',
  'deliver.slow',
  'deliver.retry',
] as const;

export type StageName = (typeof STAGE_NAMES)[number];
