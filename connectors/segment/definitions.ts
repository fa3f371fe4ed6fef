import type { JsonObject, PersonIdentity } from '@tributary/core';
import type { Authorization } from './messages.ts';

/** What an action says of its batches, where a mapping does not. */
interface BatchDefaults {
  /** Events of one. */
  readonly count: number;
  readonly bytes?: number;
  /** Fields that must have one value in all of a batch. */
  readonly keys?: readonly string[];
  /** Whether it has the field `enable_batching`. */
  readonly hasSwitch: boolean;
}

/**
 * A destination of the pack in `definitions.json`: what lists, forms and the check of its own settings need, without
 * loading the pack.
 */
export interface Definition {
  /** Folder of `@segment/action-destinations`. */
  readonly destination: string;
  readonly type: string;
  readonly title: string;
  readonly category: string;
  /** What it is for. */
  readonly sentence: string;
  /** The destination's own settings, in JSON Schema. */
  readonly properties: Readonly<Record<string, JsonObject>>;
  readonly required: readonly string[];
  readonly presets: readonly { readonly name: string; readonly subscribe: string; readonly action: string }[];
  readonly actions: readonly string[];
  /** The defaults of the batches of those that take them; absent where none does. */
  readonly batches?: Readonly<Record<string, BatchDefaults>>;
  /** Whether the pack can test its settings. */
  readonly hasTest: boolean;
  /** The names under which its mappings read the options of a producer in `integrations`. */
  readonly integrations: readonly string[];
  /** The hosts that it may send to, see `hosts.ts`. */
  readonly hosts: readonly string[];
  /** `token`: the setting `accessToken` is no setting of the pack; `connection`: a person connects it, see `PROVIDERS`. */
  readonly authorization?: Authorization | 'connection';
  /** The ids by which its deletion of a person names them; absent where it has none, or names nobody. */
  readonly deletes?: readonly (keyof PersonIdentity)[];
  readonly hasAudiences?: true;
  /** Secrets of the vendor's partners that it reads; it is offered where the installation has all of them. */
  readonly needs?: readonly string[];
}
