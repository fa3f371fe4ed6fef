import type { Destination } from '../catalog/entities.ts';
import type { Json, JsonObject } from '../event/event.ts';

/** The parts of a destination that identify it in `integrations`. */
type NamedDestination = Pick<Destination, 'id' | 'name' | 'type'>;

/**
 * Whether the producer of an event excludes a destination by `integrations`, as Segment and RudderStack document it: `false`
 * excludes, `true` or options include, and `All` decides about the destinations that it does not name (default `true`).
 */
export function excludes(integrations: JsonObject | undefined, destination: NamedDestination): boolean {
  if (integrations === undefined) return false;
  const own = integrationFor(integrations, destination);
  if (typeof own === 'boolean') return !own;
  const isOptions = typeof own === 'object' && own !== null && !Array.isArray(own);
  return !isOptions && (integrations.All ?? integrations.all) === false;
}

/**
 * The value for a destination; undefined where `integrations` do not name it. Its id decides before its name, and that before
 * its type. The type may be written as the products call it: `Actions Amplitude` and `Amplitude` are `segment-amplitude`.
 */
export function integrationFor(
  integrations: JsonObject,
  { id, name, type }: NamedDestination,
): Json | undefined {
  for (const key of [id, name, type]) if (Object.hasOwn(integrations, key)) return integrations[key];
  const vendor = vendorOf(type);
  const key = Object.keys(integrations).find((one) => vendorOf(one) === vendor);
  return key === undefined ? undefined : integrations[key];
}

function vendorOf(name: string): string {
  return name.toLowerCase().replaceAll(/^segment-|\bactions\b|[^\p{L}\p{N}]/gu, '');
}

const MEMBER = '"integrations":{';
const ALL = `${MEMBER}"All":true}`;

/** Whether the JSON of an event may exclude a destination: false for most events, which then need not be parsed. */
export function mayExclude(text: string): boolean {
  for (let at = text.indexOf(MEMBER); at !== -1; at = text.indexOf(MEMBER, at + 1)) {
    const isEmpty = text[at + MEMBER.length] === '}';
    if (!isEmpty && !text.startsWith(ALL, at)) return true;
  }
  return false;
}
