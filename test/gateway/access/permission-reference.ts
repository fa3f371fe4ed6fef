import { CREDENTIAL_KINDS, conditionOf, type Operation, permissionOf } from '@tributary/core';
import { describeWritableFields } from './writable-fields.ts';

/** A call of the API and its operation. */
export interface Call {
  readonly method: string;
  /** Below `/api/v1`, or the whole path elsewhere; with `:parameters`. */
  readonly path: string;
  readonly operation: Operation;
}

/** The permission table with the calls of each operation, in Markdown: `docs/reference/permissions.md`. */
export function describePermissions(calls: readonly Call[]): string {
  const rows = calls
    .toSorted((a, b) => order(a.path, b.path) || order(a.method, b.method))
    .map((call) => `| ${cellsOf(call).join(' | ')} |`);
  const table = ['| call | operation | ID token | API key | write key | client key |', LINE, ...rows];
  const parts = [...INTRODUCTION, table.join('\n'), ...FIELDS, describeWritableFields()];
  return `${parts.join('\n\n')}\n`;
}

const LINE = '|---|---|---|---|---|---|';

const INTRODUCTION = [
  '# Permissions: who may make which call',
  'Made from the permission table in `core/access/permissions.ts` and the routes of the gateway; `test/gateway/access/permission-reference.spec.ts` keeps it up to date, and writes it anew when run with `-u`. `test/flows/access/permissions.spec.ts` calls every route with every kind of credential and every role.',
  'A role includes those after it: in an organization owner, admin, member; in a workspace admin, editor, viewer. Owners and admins of an organization are admins of its workspaces; a member sees the workspaces they were added to. An API key has a role in its one workspace; it makes API keys and touches members only where an admin of the organization allowed that, by ID token, when the key was made (`may_manage`). API keys and client keys go with the role of the person who made them: when that person is removed, or gets a role that does not cover a key, the key is revoked in the same step, unless somebody else decides to keep it (`keys=keep`). The region of a workspace is changed by admins of its organization, by ID token. Profiles are another matter: a client key has scopes; an ID token has those of its owner’s role: a viewer or a member of the organization `profile.read`, an editor `profile.write` too, an admin or owner all three, with a role in a workspace counting in that workspace’s region alone. Effective is what the role or key has, what the token’s own claim `scope` or `scopes` names (where it names any `profile.*`; it never adds one), and what the header `scopes` of the call names, all three at once. A write without effective `profile.read` is answered with `ucid`, `ids`, `region`, the times and what that very call wrote; the rest of the record needs `profile.read`. Where nothing stands the answer is 403 `permission denied`, as it is for a role that does not suffice; without a credential that is good it is 401 `not authenticated`.',
];

const FIELDS = [
  '## What a field lets one reach',
  'Every field that a call may write, and the resources beyond its own that a value of it reaches. A role without a qualifier is a role in the workspace, of a person or of an API key. `test/gateway/access/writable-fields.spec.ts` fails for a field that is missing here: the change that adds a field states what it reaches, and a field that reaches more than the role of its caller needs a rule of its own.',
];

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function cellsOf({ method, path, operation }: Call): readonly string[] {
  const permission = permissionOf(operation);
  const shown = path.replaceAll(/:([a-zA-Z]+)/g, '{$1}');
  return [
    `\`${method} ${shown}\``,
    operation,
    ...CREDENTIAL_KINDS.map((kind) => conditionOf(kind, permission)),
  ];
}
