import type { JsonObject, PersonIdentity } from '@tributary/core';
import type { Authorization } from './messages.ts';

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
  /** Whether the pack can test its settings. */
  readonly hasTest: boolean;
  /** The names under which its mappings read the options of a producer in `integrations`. */
  readonly integrations: readonly string[];
  /** The hosts that it may send to, see `hosts.ts`. */
  readonly hosts: readonly string[];
  /** `token`: the setting `accessToken` is no setting of the pack. */
  readonly authorization?: Authorization;
  /** The ids by which its deletion of a person names them; absent where it has none, or names nobody. */
  readonly deletes?: readonly (keyof PersonIdentity)[];
  readonly hasAudiences?: true;
  /** Secrets of the vendor's partners that it reads; it is offered where the installation has all of them. */
  readonly needs?: readonly string[];
}
