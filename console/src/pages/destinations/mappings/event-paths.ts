import { isObject } from './value-draft.ts';

/** Segment's names of our fields, by which mappings find them. */
const NAMES: Readonly<Record<string, string>> = {
  message_id: 'messageId',
  user_id: 'userId',
  anonymous_id: 'anonymousId',
  group_id: 'groupId',
  previous_id: 'previousId',
  received_at: 'receivedAt',
};
/** Fields that mappings do not see, of an event and of its context. */
const HIDDEN = new Set(['environment', 'workspace_id', 'source_id']);
const HIDDEN_IN_CONTEXT = new Set(['tributary', 'segment']);

const MAX_DEPTH = 6;
const MAX_PATHS = 500;

/** Values by their paths, as mappings name them. */
export type Values = ReadonlyMap<string, unknown>;

/** The values in an event. */
export function valuesIn(event: Readonly<Record<string, unknown>>): Values {
  const seen = Object.entries(event).flatMap(([name, value]): [string, unknown][] => {
    if (HIDDEN.has(name)) return [];
    return [[NAMES[name] ?? name, name === 'context' && isObject(value) ? withoutHidden(value) : value]];
  });
  return valuesBelow(Object.fromEntries(seen));
}

function withoutHidden(context: Readonly<Record<string, unknown>>) {
  return Object.fromEntries(Object.entries(context).filter(([name]) => !HIDDEN_IN_CONTEXT.has(name)));
}

/** The values in an item of a list; none where it is no object. */
export function valuesBelow(item: unknown): Values {
  const values = new Map<string, unknown>();
  const visit = (value: unknown, path: string, depth: number) => {
    if (depth > 0) values.set(path, value);
    if (!isObject(value) || depth === MAX_DEPTH) return;
    // A name with a dot has no path.
    for (const [name, member] of Object.entries(value))
      if (!/[.[\]]/.test(name) && values.size < MAX_PATHS) visit(member, `${path}.${name}`, depth + 1);
  };
  visit(item, '$', 0);
  return values;
}

/** The paths of the values in some events. */
export function pathsIn(events: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  const paths = new Set(events.flatMap((event) => [...valuesIn(event).keys()]));
  return [...paths].slice(0, MAX_PATHS).sort();
}
