import type { JsonObject } from '@tributary/core';
import type { Chosen } from './chosen.ts';

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
