import type { JsonObject } from '@tributary/core';

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
