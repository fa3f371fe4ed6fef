import { describePermission, type Operation, permissionOf } from '@tributary/core';
import { describeWritableFields } from './writable-fields.ts';

/** A call of the API and its operation. */
export interface Call {
  readonly method: string;
  /** Below `/api/v1`, or the whole path elsewhere; with `:parameters`. */
  readonly path: string;
  readonly operation: Operation;
}

/** The calls of each operation by the callers that may make them, in Markdown: `docs/reference/permissions.md`. */
export function describePermissions(calls: readonly Call[]): string {
  const groups = Map.groupBy(
    calls.toSorted((a, b) => order(a.path, b.path) || order(a.method, b.method)),
    ({ operation }) => describePermission(permissionOf(operation)),
  );
  const parts = [...groups].map(([callers, group]) => [`### ${callers}`, describeCalls(group)].join('\n\n'));
  return `${[...INTRODUCTION, ...parts, ...FIELDS, describeWritableFields()].join('\n\n')}\n`;
}

function describeCalls(calls: readonly Call[]): string {
  return [...Map.groupBy(calls, ({ operation }) => operation)]
    .map(([operation, group]) => `- ${operation}: ${group.map(describeCall).join(', ')}`)
    .join('\n');
}

function describeCall({ method, path }: Call): string {
  return `\`${method} ${path.replaceAll(/:([a-zA-Z]+)/g, '{$1}')}\``;
}

const INTRODUCTION = [
  '# Permissions: who may make which call',
  'Made from `core/access/permissions.ts` and the routes of the gateway by `test/gateway/access/permission-reference.spec.ts` with `-u`. `test/flows/access/permissions.spec.ts` calls every route with every credential and role.',
  'A role includes those after it: in an organization owner, admin, member; in a workspace admin, editor, viewer. Owners and admins of an organization are admins of its workspaces; a member sees the workspaces they were added to.',
  'An API key has a role in its one workspace; it makes API keys and changes members only where an admin of the organization allowed that by ID token when the key was made (`may_manage`). API keys and client keys go with the role of the person who made them, unless somebody else decides to keep them (`keys=keep`). The region of a workspace is changed by admins of its organization, by ID token.',
  'Profiles: a client key has scopes; an ID token has those of its owner’s role: a viewer or a member of the organization `profile.read`, an editor `profile.write` too, an admin or owner all three; a role in a workspace counts in that workspace’s region alone. Effective is what the role or key, the token’s own claim `scope` or `scopes` (where it names any `profile.*`) and the header `scopes` of the call all name.',
  'Where a credential is not named, or its role does not suffice, the answer is 403 `permission denied`; without a valid credential it is 401 `not authenticated`.',
  '## Calls by their callers',
];

const FIELDS = [
  '## What a field reaches',
  'Every field that a call may write, the resources beyond its own that a value of it reaches, and in brackets who may set it (a role is one in the workspace, of a person or an API key). `test/gateway/access/writable-fields.spec.ts` fails for a missing field. An id of another workspace is as good as missing.',
];

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
