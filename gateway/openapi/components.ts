import { isDeepStrictEqual } from 'node:util';

type Value = Readonly<Record<string, unknown>>;

/**
 * Replaces each schema that has a `title` by a reference to a component of that name, which `components` then holds.
 * One name stands for one schema: two that differ are a mistake of the routes.
 */
export function shareTitled(value: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => shareTitled(item, components));
  if (typeof value !== 'object' || value === null) return value;
  const shared = Object.fromEntries(
    Object.entries(value as Value).map(([key, member]) => [
      key,
      // Examples are data, in which a title is a title.
      key === 'example' || key === 'examples' ? member : shareTitled(member, components),
    ]),
  );
  const { title } = shared;
  if (typeof title !== 'string') return shared;
  const known = components[title];
  if (known !== undefined && !isDeepStrictEqual(known, shared))
    throw new Error(`two schemas of the API are called ${title}`);
  components[title] = shared;
  return { $ref: `#/components/schemas/${title}` };
}
