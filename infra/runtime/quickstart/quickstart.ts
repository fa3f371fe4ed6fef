import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseKey } from '@tributary/core';
import type { GatewayDependencies } from '@tributary/gateway';
import type { FastifyInstance } from 'fastify';
import type { DevIssuer } from '../issuer/dev-issuer.ts';

const EMAIL = 'dev@tributary.localhost';

/** What a newcomer needs to send the first event. */
export interface Quickstart {
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
}

type StoredQuickstart = Omit<Quickstart, 'idToken'>;

/**
 * A workspace and a write key to start with, made through the API at the first start. The raw key is remembered in
 * the data folder, beside the development issuer's key and like it for trying things out only, so that later starts
 * show the same one; when it was revoked, a new one is made.
 */
export async function prepareQuickstart(
  app: FastifyInstance,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  issuer: DevIssuer,
  dataFolder: string,
): Promise<Quickstart> {
  const idToken = await issuer.mint(EMAIL);
  const file = join(dataFolder, 'quickstart.json');
  const stored = readStored(file);
  const hash = parseKey(stored?.writeKey ?? '')?.hash;
  // The file may outlive the catalog it spoke of, the workspace be archived, its maker be sent away: then everything is
  // made anew.
  const isKnown = stored !== undefined && (await isOpen(app, idToken, stored.workspaceId));
  const isGood = hash !== undefined && catalog.state.keyByHash(hash)?.key.status === 'active';
  if (isKnown && isGood) return { ...stored, idToken };
  const made = await makeQuickstart(app, idToken, isKnown ? stored.workspaceId : undefined);
  writeFileSync(`${file}.new`, JSON.stringify(made), { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
  return { ...made, idToken };
}

/** Whether the workspace is there, at work, and the person's to administer. */
async function isOpen(app: FastifyInstance, idToken: string, workspaceId: string): Promise<boolean> {
  const answer = await app.inject({
    method: 'GET',
    url: `/api/v1/workspaces/${workspaceId}`,
    headers: { authorization: `Bearer ${idToken}`, 'x-workspace-id': workspaceId },
  });
  if (answer.statusCode !== 200) return false;
  const { status, role } = answer.json<{ status: string; role: string }>();
  return status === 'active' && role === 'admin';
}

async function makeQuickstart(
  app: FastifyInstance,
  idToken: string,
  known: string | undefined,
): Promise<StoredQuickstart> {
  const call = async <T>(url: string, payload: object, headers: Record<string, string> = {}): Promise<T> => {
    const answer = await app.inject({
      method: 'POST',
      url,
      payload,
      headers: { authorization: `Bearer ${idToken}`, ...headers },
    });
    if (answer.statusCode !== 201)
      throw new Error(`the first workspace cannot be made: ${answer.statusCode} ${answer.body}`);
    return answer.json<T>();
  };
  const workspaceId = known ?? (await call<{ id: string }>('/api/v1/workspaces', { name: 'Quickstart' })).id;
  const key = await call<{ key: string }>(
    `/api/v1/workspaces/${workspaceId}/event-keys`,
    { name: 'quickstart', environment: 'production' },
    { 'x-workspace-id': workspaceId },
  );
  return { workspaceId, writeKey: key.key };
}

function readStored(file: string): StoredQuickstart | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as StoredQuickstart;
  } catch {
    return undefined; // missing or torn: it is made anew
  }
}

/** What `tributary dev` prints once it is ready. */
export function welcome(
  url: string,
  adminUrl: string,
  { workspaceId, writeKey, idToken }: Quickstart,
): string {
  return `
Tributary is ready at ${url}

  workspace   ${workspaceId}
  write key   ${writeKey}
  ID token    ${idToken}
  admin port  ${adminUrl} (/metrics, /readyz)

Send an event:

  curl -X POST ${url}/api/v1/workspaces/${workspaceId}/events/track -H 'Authorization: Bearer ${writeKey}' -H 'Content-Type: application/json' -d '{"event":"Signed Up","user_id":"ada"}'

Real input: npm run demo (in another terminal). Stop with Ctrl-C.
`;
}
