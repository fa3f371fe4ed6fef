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
/** Fields that mappings do not see. */
const HIDDEN = new Set(['environment', 'workspace_id', 'source_id']);

const MAX_DEPTH = 6;
const MAX_PATHS = 500;

/** The paths of the values in some events, as mappings name them. */
export function pathsIn(events: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  const paths = new Set<string>();
  const visit = (value: unknown, path: string, depth: number) => {
    if (paths.size >= MAX_PATHS || depth > MAX_DEPTH) return;
    paths.add(path);
    if (!isObject(value)) return;
    // A name with a dot has no path.
    for (const [name, member] of Object.entries(value))
      if (!/[.[\]]/.test(name)) visit(member, `${path}.${name}`, depth + 1);
  };
  for (const event of events)
    for (const [name, value] of Object.entries(event))
      if (!HIDDEN.has(name) && name !== 'context') visit(value, `$.${NAMES[name] ?? name}`, 1);
  for (const { context } of events)
    if (isObject(context))
      for (const [name, value] of Object.entries(context))
        if (name !== 'tributary' && name !== 'segment') visit(value, `$.context.${name}`, 2);
  return [...paths].sort();
}
