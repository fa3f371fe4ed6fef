/**
 * The destinations of the pack that there are connectors for: folders of `@segment/action-destinations`. Those whose
 * credentials a person can type in, and whose presets turn any event into a request.
 */
export const CHOSEN = [
  'amplitude',
  'braze',
  'canny-functions',
  'customerio',
  'drip',
  'encharge',
  'iterable',
  'mixpanel',
  'outfunnel',
  'posthog',
  'pushwoosh',
  'schematic',
  'usermaven',
] as const;

export type Chosen = (typeof CHOSEN)[number];
