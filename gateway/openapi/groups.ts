import type { OpenApiDocument } from './document.ts';

/** The groups of the reference in the order in which a reader needs them, with what each is for. */
const GROUPS: readonly (readonly [name: string, description: string])[] = [
  ['events', 'Send events, follow them live, and trace a single event.'],
  ['event-contracts', 'Schemas that events must satisfy, and the violations of them.'],
  ['tracking-plan', 'All active contracts as one document.'],
  ['event-transformations', 'JavaScript that changes, drops or multiplies events on their way.'],
  ['destinations', 'Places that events are delivered to, and their health.'],
  ['destination-types', 'The kinds of destination, with the settings that each takes.'],
  ['event-forwarding-rules', 'Which events go to which destination.'],
  ['deliveries', 'Events on their way to a destination; redrive or discard those that failed.'],
  ['profiles', 'Write, search and delete customer profiles.'],
  ['funnel', 'Counts of events by outcome.'],
  ['event-volume', 'Accepted events by the hour.'],
  ['storage', 'Bytes of a workspace in the log, and its budgets.'],
  ['recent-events', 'The newest events of a workspace.'],
  ['alerts', 'Alerts on the numbers of a workspace, and the recipients of their notices.'],
  ['notice-addresses', 'The addresses that notices are sent to, once they are confirmed.'],
  ['replays', 'Send stored events through the rules or contracts again.'],
  ['sdks', 'The calls of SDKs that were made for Segment or RudderStack.'],
  ['workspaces', 'The workspaces of an organization.'],
  ['organizations', 'Organizations, with the number that the profile API knows each by.'],
  ['members', 'The members of an organization or a workspace, and their roles.'],
  ['profile-settings', 'How an organization identifies people.'],
  ['sources', 'Where events come from.'],
  ['event-keys', 'Write keys, which send events.'],
  ['api-keys', 'API keys, which manage one workspace.'],
  ['client-keys', 'Client keys, which call the profile API.'],
  ['audit-log', 'Who changed what, and when.'],
  ['me', 'The caller.'],
  ['system', 'The installation, for its operators.'],
];

const RANK_OF = new Map(GROUPS.map(([name], rank) => [name, rank]));

/** Calls that come first in their group, in this order; the others follow by path. */
const FIRST = ['track', 'identify', 'page', 'group', 'batch', 'live'].map((call) => `/events/${call}`);

/** The tags that are used, in the order of the groups. Throws for one without a group. */
export function groupsOf(used: readonly string[]): NonNullable<OpenApiDocument['tags']> {
  const unknown = used.find((name) => !RANK_OF.has(name));
  if (unknown !== undefined) throw new Error(`the tag ${unknown} has no place among the groups of the API`);
  return GROUPS.flatMap(([name, description]) => (used.includes(name) ? [{ name, description }] : []));
}

/** Compares two paths by their group, then by `FIRST`, then by path, so that a resource comes before what is below it. */
export function inReadingOrder(left: RankedPath, right: RankedPath): number {
  const order = rankOf(left) - rankOf(right) || firstOf(left) - firstOf(right);
  return order === 0 ? (left.path < right.path ? -1 : 1) : order;
}

interface RankedPath {
  readonly path: string;
  readonly tag: string;
}

function rankOf({ tag }: RankedPath): number {
  return RANK_OF.get(tag) ?? GROUPS.length;
}

function firstOf({ path }: RankedPath): number {
  const rank = FIRST.findIndex((call) => path.endsWith(call));
  return rank === -1 ? FIRST.length : rank;
}
