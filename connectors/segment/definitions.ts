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

/*
 * The hosts that a destination of the pack may send to. The pack puts settings into URLs, most of them as they are: one such
 * as `evil.example/x?` would take the credentials of the destination to another host. So each definition has the hosts that
 * its code names, by which the process outside decides:
 *
 * - `api.example.com`: this host;
 * - `*.example.com`: any name of one part in place of `*`, where the code computes it;
 * - `{site}.example.com`: the value of the setting `site` in place of it, if that is a name or a URL;
 * - `{mapping}`: any host, where it is the mapping that states the URL.
 */

export const ANY_HOST = '{mapping}';

const NAME = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

export function isHostOf(patterns: readonly string[], settings: JsonObject, host: string): boolean {
  if (patterns.includes(host) || patterns.includes(ANY_HOST)) return true;
  return patterns.some((pattern) => /[*{]/.test(pattern) && matches(pattern, settings, host));
}

function matches(pattern: string, settings: JsonObject, host: string): boolean {
  const stated = [...pattern.matchAll(/\{([^}]+)\}/g)].map(([, name = '']) => nameIn(settings[name]));
  if (stated.includes(undefined)) return false;
  const parts = pattern.split(/\{[^}]+\}/);
  const filled = parts.map((part, at) => part + (stated[at] ?? '')).join('');
  const [before = '', after] = filled.split('*');
  if (after === undefined) return filled === host;
  const label = host.slice(before.length, host.length - after.length);
  return host.startsWith(before) && host.endsWith(after) && /^[a-z0-9-]+$/.test(label);
}

/** The name in a setting: its value, or the host of the URL that it is. */
function nameIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const text = value.trim().toLowerCase();
  if (NAME.test(text)) return text;
  return /^https?:\/\//.test(text) ? URL.parse(text)?.hostname : undefined;
}
