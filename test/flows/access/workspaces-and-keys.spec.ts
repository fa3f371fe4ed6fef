import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { openDevIssuer } from '@tributary/infra';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inherited } from '../../helpers/child-environment.ts';
import { type Client, eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Key {
  readonly id: string;
  readonly key: string;
  readonly key_prefix: string;
  readonly status: string;
}

/**
 * The first sign-in creates an account; a workspace has API keys for servers and write keys for producers.
 */
describe('Workspaces and keys', () => {
  let tributary: Tributary;
  let grace: Client;
  let idToken: string;
  let workspaceId: string;
  beforeAll(async () => {
    tributary = await startTributary();
    idToken = tokenOf('grace@example.com', tributary);
    grace = tributary.owner.with({ token: idToken });
    workspaceId = (await grace.post<{ id: string }>('/workspaces', { name: 'Compilers' })).id;
    grace = grace.with({ workspaceId });
  });
  afterAll(() => tributary.remove());

  it('a person sees only the workspaces they belong to', async () => {
    expect(await grace.get('/workspaces')).toMatchObject([{ name: 'Compilers', role: 'admin' }]);
    const foreign = await grace.with({ workspaceId: tributary.workspaceId }).call('GET', './event-keys');
    expect(foreign).toMatchObject({ status: 403, body: { error: 'permission denied' } });
  });

  it('an API key is shown once, is valid for its workspace, and is refused once revoked', async () => {
    const made = await grace.call<Key>('POST', './api-keys', { body: { name: 'server' } });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ name: 'server', status: 'active', workspace_id: workspaceId });
    expect(made.body.key.startsWith(made.body.key_prefix)).toBe(true);

    const server = grace.with({ token: made.body.key });
    expect((await server.call('GET', './event-contracts')).status).toBe(200);
    const listed = await grace.get<readonly Key[]>('./api-keys');
    expect(listed[0]).not.toHaveProperty('key');
    expect(listed[0]).not.toHaveProperty('hash');

    const elsewhere = server.with({ workspaceId: tributary.workspaceId });
    expect((await elsewhere.call('GET', './event-contracts')).status).toBe(403);

    for (let time = 0; time < 2; time++) {
      const revoked = await grace.call<Key>('DELETE', `./api-keys/${made.body.id}`);
      expect(revoked).toMatchObject({ status: 200, body: { id: made.body.id, status: 'revoked' } });
    }
    expect(await server.call('GET', './event-contracts')).toMatchObject({
      status: 401,
      body: { error: 'not authenticated' },
    });
  });

  it('a write key can only send events', async () => {
    const key = await grace.post<Key>('./event-keys', { name: 'site', environment: 'development' });
    const site = grace.with({ token: key.key });
    expect((await site.call('POST', './events/page', { body: { anonymous_id: 'a1' } })).status).toBe(202);
    expect((await site.call('GET', './event-keys')).status).toBe(403);
    expect((await grace.call('POST', './events/page', { body: { anonymous_id: 'a1' } })).status).toBe(403);
    await eventually(
      () => grace.get<readonly { last_used_at: string | null }[]>('./event-keys'),
      (keys) => keys[0]?.last_used_at != null,
    );
    await grace.call('DELETE', `./event-keys/${key.id}`);
    expect((await site.call('POST', './events/page', { body: { anonymous_id: 'a1' } })).status).toBe(401);
  });

  it('a lost raw key cannot be retrieved, and a revoked key cannot be reactivated', async () => {
    for (const [list, body] of [
      ['./api-keys', { name: 'lost' }],
      ['./event-keys', { name: 'lost', environment: 'production' }],
    ] as const) {
      const { id, key } = await grace.post<Key>(list, body);
      expect((await grace.call('GET', `${list}/${id}`)).status).toBe(405);
      expect(JSON.stringify(await grace.get(list))).not.toContain(key);
      await grace.ok('DELETE', `${list}/${id}`);
      for (const method of ['PUT', 'POST', 'PATCH'])
        expect(
          (await grace.call(method, `${list}/${id}`, { body: { ...body, status: 'active' } })).status,
        ).toBe(405);
      const shown = (await grace.get<readonly Key[]>(list)).find((each) => each.id === id);
      expect(shown?.status).toBe('revoked');
    }
  });

  it('an ID token expires after an hour', async () => {
    const { iat = 0, exp = 0 } = decodeJwt(tributary.idToken);
    expect(exp - iat).toBe(3_600);
    const issuer = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' });
    const minutesOld = async (minutes: number) => {
      const token = await issuer.mint('grace@example.com', new Date(Date.now() - minutes * 60_000));
      return (await grace.with({ token }).call('GET', '/workspaces')).status;
    };
    expect(await minutesOld(58)).toBe(200);
    expect(await minutesOld(62)).toBe(401);
  });

  it('routes require the workspace header where the specification does', async () => {
    const bare = new URL(`${tributary.url}/api/v1/workspaces/${workspaceId}/event-keys`);
    const authorization = `Bearer ${idToken}`;
    const call = async (headers: Record<string, string>) =>
      (await fetch(bare, { headers: { authorization, ...headers } })).status;
    expect(await call({})).toBe(400);
    expect(await call({ 'x-workspace-id': 'not-a-uuid' })).toBe(400);
    expect(await call({ 'x-workspace-id': tributary.workspaceId })).toBe(403);
    expect(await call({ 'x-workspace-id': workspaceId })).toBe(200);
  });
});

/** The output of `npm run --silent token -- --email <address>`. */
function tokenOf(email: string, { folder }: Tributary): string {
  const main = fileURLToPath(new URL('../../../infra/runtime/main.ts', import.meta.url));
  const env = { ...inherited(), TRIBUTARY_DATA_DIR: folder };
  return execFileSync(process.execPath, [main, 'token', '--email', email], { env, encoding: 'utf8' }).trim();
}
