import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { type OidcProvider, startOidcProvider } from '../../helpers/oidc-provider.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import {
  admin,
  clientsOf,
  type Initialized,
  type Serving,
  serveEnvironment,
  startServing,
} from '../../helpers/serve.ts';

describe('tributary serve', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let provider: OidcProvider;
  let environment: Readonly<Record<string, string>>;
  beforeAll(async () => {
    folder = await temporaryFolder();
    provider = await startOidcProvider();
    environment = serveEnvironment(folder.path, { TRIBUTARY_ISSUERS: JSON.stringify([provider.settings]) });
  });
  afterAll(async () => {
    await provider.close();
    await folder.remove();
  });

  it('starts without an issuer in no way but by the word none, without keys for secrets, or with the development issuer', async () => {
    const refused = async (changes: Readonly<Record<string, string>>) => {
      const { code, log } = await ranHere(['serve'], { ...environment, ...changes });
      expect(code).toBe(2);
      expect(log).not.toContain('    at ');
      return log.split('\n').slice(1, -1);
    };
    expect(await refused({ TRIBUTARY_ISSUERS: '' })).toEqual([
      expect.stringContaining('TRIBUTARY_ISSUERS is needed: the OpenID Connect issuers'),
    ]);
    expect(await refused({ TRIBUTARY_ISSUERS: '[]' })).toEqual([
      expect.stringContaining('TRIBUTARY_ISSUERS names no issuer'),
    ]);
    expect(await refused({ TRIBUTARY_SECRET_KEYS: '' })).toEqual([
      expect.stringContaining('TRIBUTARY_SECRET_KEYS is needed'),
    ]);
    expect(await refused({ TRIBUTARY_DEV_ISSUER: 'true' })).toEqual([
      expect.stringContaining('TRIBUTARY_DEV_ISSUER is for tributary dev'),
    ]);
  });

  it('is set up by admin beside it, lets the invited owner in by the issuer, takes events, and has all of it after a kill', async () => {
    let serving: Serving = await startServing(environment);
    const first = await admin<Initialized>(environment, 'init', '--email', 'Ada@Example.com');
    expect(first).toMatchObject({
      organization: { changed: true },
      owner: { email: 'ada@example.com', role: 'owner', status: 'pending' },
    });
    const token = await provider.signIn({ sub: 'ada', email: 'ada@example.com', email_verified: true });
    const ada = new Client(serving.url, token, first.workspace.id);
    expect(await ada.get('/workspaces')).toMatchObject([{ id: first.workspace.id, role: 'admin' }]);
    const stranger = new Client(
      serving.url,
      await provider.signIn({ sub: 'eve', email: 'ada@example.com', email_verified: false }),
    );
    expect(await stranger.get('/workspaces')).toEqual([]);

    const { producer } = await clientsOf(serving.url, first);
    const track = () => producer.call('POST', './events/track', { event: 'Paid', user_id: 'u' });
    expect((await track()).status).toBe(202);
    await serving.server.kill();
    serving = await startServing(environment);
    const here = ada.at(serving.url);
    const volume = () => here.get<readonly { event_count: number }[]>('./event-volume');
    await eventually(volume, ([counted]) => counted?.event_count === 1);
    expect(await admin<Initialized>(environment, 'init', '--email', 'ada@example.com')).toMatchObject({
      organization: { id: first.organization.id, changed: false },
      owner: { status: 'active' },
      api_key: { key: null },
    });
    const operator = new Client(serving.url, first.api_key.key ?? '', first.workspace.id);
    expect((await operator.call('GET', './sources')).status).toBe(200);

    const log = await here.get<readonly object[]>(`/organizations/${first.organization.id}/audit-log`);
    expect(log).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          action: 'added',
          actor: expect.objectContaining({ type: 'operator', id: 'admin' }),
        }),
        expect.objectContaining({
          action: 'joined',
          actor: expect.objectContaining({ email: 'ada@example.com' }),
        }),
      ]),
    );
    expect(await (await fetch(`${serving.adminUrl}/metrics`)).text()).toContain('role="serve"');
    expect(await serving.server.stop()).toBe(0);
  });
});
