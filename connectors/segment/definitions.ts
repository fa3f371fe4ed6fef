import type { JsonObject } from '@tributary/core';

/** What is known of a destination without loading it: `definitions.json`. */
export interface Definition {
  readonly destination: Chosen;
  readonly type: string;
  readonly title: string;
  /** Settings that are the destination's own, in JSON Schema. */
  readonly properties: Readonly<Record<string, JsonObject>>;
  readonly required: readonly string[];
  readonly presets: readonly { readonly name: string; readonly subscribe: string; readonly action: string }[];
  readonly actions: readonly string[];
  /** Whether it can be asked if its settings are good. */
  readonly hasTest: boolean;
}

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
