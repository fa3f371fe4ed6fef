import { readFileSync } from 'node:fs';
import { describePermission, type Operation, permissionOf } from '@tributary/core';
import { expect, it } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';

const DOCUMENT = '../../../docs/reference/permissions.md';
/** From here on the document is written by hand; `writable-fields.spec.ts` checks it. */
const BY_HAND = '\n\n## What a field reaches\n';

const INTRODUCTION = [
  '# Permissions: who may make which call',
  'Made from `core/access/permissions.ts` by `test/gateway/access/permission-reference.spec.ts` with `-u`; `test/flows/access/permissions.spec.ts` calls every route with every credential and role.',
  'A role includes those after it: in an organization owner, admin, member; in a workspace admin, editor, viewer. Owners and admins of an organization are admins of its workspaces; a member sees those they were added to.',
  'An API key has a role in its one workspace; it makes API keys and changes members only where an admin of the organization allowed that at its creation (`may_manage`). API keys and client keys go with the role of the person who made them, unless somebody else keeps them (`keys=keep`). The region of a workspace is changed by admins of its organization, by ID token.',
  'Profiles: a client key has scopes; an ID token has those of its owner’s role: a viewer or a member of the organization `profile.read`, an editor `profile.write` too, an admin or owner all three; a role in a workspace counts in that workspace’s region alone. Effective is what role or key, the token’s claim `scope` or `scopes` (where it names any `profile.*`) and the header `scopes` all name.',
  'Where a credential is not named, or its role does not suffice, the answer is 403 `permission denied`; without a valid credential it is 401 `not authenticated`.',
  '## Calls by their callers',
  '`list`, `read`, `create`, `update` (`PUT` and `PATCH`), `delete` and `revoke` are the calls of a resource and its items, below its workspace or organization; of other operations the call is given.',
];

/** A call of the API and its operation. */
interface Call {
  readonly method: string;
  /** Below `/api/v1`, or the whole path elsewhere; with `:parameters`. */
  readonly path: string;
  readonly operation: Operation;
}

const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** The calls of each operation by the callers that may make them. */
function describePermissions(calls: readonly Call[]): string {
  const groups = Map.groupBy(
    calls.toSorted((a, b) => order(a.path, b.path) || order(a.method, b.method)),
    ({ operation }) => describePermission(permissionOf(operation)),
  );
  const parts = [...groups].map(([callers, group]) => `### ${callers}\n\n${describeCalls(group)}`);
  return [...INTRODUCTION, ...parts].join('\n\n');
}

/** Whether the call follows from the name of the operation: one that each resource has. */
const isUsual = ([operation, [call]]: readonly [string, readonly Call[]]) =>
  /\.(list|read|create|update|delete|revoke)$/.test(operation) &&
  /^\/(workspaces|organizations)/.test(call?.path ?? '');

function describeCalls(calls: readonly Call[]): string {
  const operations = [...Map.groupBy(calls, ({ operation }) => operation)];
  const usual = operations.filter(isUsual).map(([operation]) => operation);
  const others = operations
    .filter((one) => !isUsual(one))
    .map(([operation, group]) => `- ${operation}: ${group.map(describeCall).join(', ')}`);
  return [...(usual.length > 0 ? [`- ${usual.join(', ')}`] : []), ...others].join('\n');
}

function describeCall({ method, path }: Call): string {
  return `\`${method} ${path.replaceAll(/:([a-zA-Z]+)/g, '{$1}')}\``;
}

it('docs/reference/permissions.md equals the permission table and the routes', async () => {
  const { routes, close } = await openTestGateway();
  await close();
  const calls = routes.map(({ method, url, config }) => ({
    method: String(method),
    path: url.replace('/api/v1', ''),
    operation: config?.operation as Operation,
  }));
  const [, byHand] = readFileSync(new URL(DOCUMENT, import.meta.url), 'utf8').split(BY_HAND);
  await expect(`${describePermissions(calls)}${BY_HAND}${byHand}`).toMatchFileSnapshot(DOCUMENT);
});
