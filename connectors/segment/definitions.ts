import type { JsonObject } from '@tributary/core';

/** The description of a destination in `definitions.json`, available without loading the pack. */
export interface Definition {
  readonly destination: Chosen;
  readonly type: string;
  readonly title: string;
  /** The destination's own settings, in JSON Schema. */
  readonly properties: Readonly<Record<string, JsonObject>>;
  readonly required: readonly string[];
  readonly presets: readonly { readonly name: string; readonly subscribe: string; readonly action: string }[];
  readonly actions: readonly string[];
  /** Whether the pack can test its settings. */
  readonly hasTest: boolean;
}

/**
 * The destinations of the pack that have connectors: folders of `@segment/action-destinations` whose credentials a person
 * can type in, and whose presets turn any event into a request.
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
