import { QUOTA_NAMES, QUOTAS, type QuotaName, type Quotas } from '@tributary/core';
import { ChangeLimits } from '@tributary/gateway';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

/** Small, and all different. */
const LIMITS: Readonly<Record<QuotaName, number>> = {
  organizations: 3,
  account_workspaces: 7,
  workspaces: 2,
  workspaces_total: 4,
  organization_members: 6,
  organization_invitations: 3,
  client_keys: 2,
  client_keys_total: 4,
  catalog_characters: 20_000,
  workspace_members: 5,
  workspace_invitations: 2,
  api_keys: 3,
  api_keys_total: 5,
  write_keys: 2,
  write_keys_total: 6,
  sources: 4,
  contracts: 3,
  contracts_total: 5,
  transformations: 3,
  rules: 5,
  enabled_rules: 2,
  destinations: 4,
  alerts: 3,
  replays_total: 3,
};

const env = Object.fromEntries(
  QUOTA_NAMES.map((name) => [`TRIBUTARY_QUOTA_${name.toUpperCase()}`, String(LIMITS[name])]),
);

const test = await suiteGateway({ env });
let people = 0;

interface Setting {
  readonly owner: Client;
  readonly organization: string;
}

async function setUp(): Promise<Setting> {
  const owner = await test.openWorkspace(`owner${people++}@example.com`);
  const { organization_id } = await owner.ok<{ organization_id: string }>(
    'GET',
    `/workspaces/${owner.workspaceId}`,
  );
  return { owner, organization: organization_id };
}

type Create = (setting: Setting, n: number) => Promise<{ status: number; body: Record<string, unknown> }>;

const post =
  (path: (setting: Setting) => string, body: (n: number) => object): Create =>
  (setting, n) =>
    setting.owner.call('POST', path(setting), body(n));
const inWorkspace = (list: string, body: (n: number) => object) => post(() => `./${list}`, body);

const members = (of: (setting: Setting) => string, role: string, known: boolean): Create => {
  const invite = post(of, (n) => ({ email: `invited${n}@example.com`, role }));
  return async (setting, n) => {
    if (!known) return invite(setting, n);
    const email = `member${people++}@example.com`;
    const person = await test.signIn(email);
    await person.ok('GET', '/workspaces');
    return setting.owner.call('POST', of(setting), { email, role });
  };
};
const organizationMembers = ({ organization }: Setting) => `/organizations/${organization}/members`;

/** Creates one, and disables it at once. */
const created =
  (create: Create, out: (setting: Setting, id: string) => string): Create =>
  async (setting, n) => {
    const answer = await create(setting, n);
    if (answer.status !== 201) return answer;
    const path = out(setting, String(answer.body.id));
    const [, workspaceId] = /^\/workspaces\/(.+)$/.exec(path) ?? [undefined, setting.owner.workspaceId];
    await setting.owner.with(workspaceId === undefined ? {} : { workspaceId }).ok('DELETE', path);
    return answer;
  };

const destination = (n: number) => ({ name: `d${n}`, type: 'ndjson', settings: { folder: `f${n}` } });
const contract = (n: number) => ({
  name: `c${n}`,
  event_type: 'track',
  event_name: `E${n}`,
  schema_definition: {},
});
const program = (n: number, size = 0) => ({
  name: `t${n}`,
  source_code: `function transform(event) { return event; } // ${'x'.repeat(size)}`,
});
const rule =
  (enabled: boolean) =>
  async ({ owner }: Setting, n: number) => {
    const [known] = await owner.ok<{ id: string }[]>('GET', './destinations');
    const { id } = known ?? (await owner.ok<{ id: string }>('POST', './destinations', destination(0)));
    return owner.call('POST', './event-forwarding-rules', { name: `r${n}`, destination_id: id, enabled });
  };
const workspaceHere: Create = ({ owner, organization }, n) =>
  owner.call('POST', '/workspaces', { name: `w${n}`, organization_id: organization });
const clientKey = post(
  ({ organization }) => `/organizations/${organization}/client-keys`,
  (n) => ({ name: `k${n}`, scopes: ['profile.read'] }),
);
const apiKey = inWorkspace('api-keys', (n) => ({ name: `k${n}` }));
const writeKey = inWorkspace('event-keys', (n) => ({ name: `k${n}`, environment: 'development' }));

/** The creation for each quota, with the usage before it. */
const CASES: Readonly<Record<QuotaName, readonly [create: Create, before: number]>> = {
  organizations: [
    post(
      () => '/organizations',
      (n) => ({ name: `o${n}` }),
    ),
    1,
  ],
  account_workspaces: [
    async ({ owner }, n) => {
      for (let made = 1; made < LIMITS.organizations; made++)
        if (n === 0) await owner.ok('POST', '/organizations', { name: `o${made}` });
      const all = await owner.ok<{ id: string }[]>('GET', '/organizations');
      const setting = { owner, organization: String(all[n % all.length]?.id) };
      return created(workspaceHere, (_, id) => `/workspaces/${id}`)(setting, n);
    },
    1,
  ],
  workspaces: [workspaceHere, 1],
  workspaces_total: [created(workspaceHere, (_, id) => `/workspaces/${id}`), 1],
  organization_members: [members(organizationMembers, 'member', true), 1],
  organization_invitations: [members(organizationMembers, 'member', false), 0],
  client_keys: [clientKey, 0],
  client_keys_total: [
    created(clientKey, ({ organization }, id) => `/organizations/${organization}/client-keys/${id}`),
    0,
  ],
  catalog_characters: [inWorkspace('event-transformations', (n) => program(n, 11_000)), 0],
  workspace_members: [members(() => './members', 'viewer', true), 0],
  workspace_invitations: [members(() => './members', 'viewer', false), 0],
  api_keys: [apiKey, 0],
  api_keys_total: [created(apiKey, (_, id) => `./api-keys/${id}`), 0],
  write_keys: [writeKey, 0],
  write_keys_total: [created(writeKey, (_, id) => `./event-keys/${id}`), 0],
  sources: [inWorkspace('sources', (n) => ({ name: `s${n}`, type: 'web' })), 0],
  contracts: [inWorkspace('event-contracts', contract), 0],
  contracts_total: [
    created(inWorkspace('event-contracts', contract), (_, id) => `./event-contracts/${id}`),
    0,
  ],
  transformations: [inWorkspace('event-transformations', (n) => program(n)), 0],
  rules: [rule(false), 0],
  enabled_rules: [rule(true), 0],
  destinations: [inWorkspace('destinations', destination), 0],
  alerts: [inWorkspace('alerts', (n) => ({ name: `a${n}`, watch: { kind: 'silence' } })), 0],
  replays_total: [
    async (setting) => {
      const since = new Date(test.clock.now() - 60_000).toISOString();
      const answer = await setting.owner.call('POST', './replays', { since });
      if (answer.status === 201) await setting.owner.ok('POST', `./replays/${answer.body.id}/cancel`, {});
      return answer;
    },
    0,
  ],
};

/** The number of creations before the first refusal. */
const ROOM: Partial<Record<QuotaName, number>> = { catalog_characters: 0 };

describe('a workspace', () => {
  it.each(QUOTA_NAMES)(
    'grew without a bound by %s: the response is 409 with the name of the quota, and existing entities are kept',
    async (quota) => {
      const setting = await setUp();
      const [create, before] = CASES[quota];
      const room = ROOM[quota] ?? LIMITS[quota] - before;
      for (let n = 0; n < room; n++) expect((await create(setting, n)).status).toBe(201);
      expect(await create(setting, 900)).toMatchObject({
        status: 409,
        body: { error: 'quota exceeded', quota, limit: LIMITS[quota] },
      });
      // Other organizations are not affected.
      if (ROOM[quota] === undefined) expect((await create(await setUp(), 901)).status).toBe(201);
    },
  );

  it('exceeded a quota by 40 concurrent creates', async () => {
    const { owner } = await setUp();
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => owner.call('POST', './sources', { name: `s${n}`, type: 'web' })),
    );
    const made = answers.filter(({ status }) => status === 201);
    expect(made).toHaveLength(LIMITS.sources);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 409]));
  });

  it('exceeded a quota by concurrent creates at two gateways: only those in progress at one of them can exceed it', async () => {
    const other = await openTestGateway({ env, folder: test.folder });
    onTestFinished(() => other.close());
    const { owner } = await setUp();
    const elsewhere = (await other.signIn('nobody@example.com')).with({
      token: String(owner.token),
      workspaceId: String(owner.workspaceId),
    });
    await other.dependencies.catalog.catchUp(5_000);
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        (n % 2 === 0 ? owner : elsewhere).call('POST', './destinations', destination(n)),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 409]));
    const made = await owner.ok<unknown[]>('GET', './destinations');
    expect(made.length).toBeGreaterThanOrEqual(LIMITS.destinations);
    expect(made.length).toBeLessThanOrEqual(LIMITS.destinations + 4);
    for (const client of [owner, elsewhere])
      expect((await client.call('POST', './destinations', destination(99))).status).toBe(409);
  });

  it('exceeded a quota by rules that were created disabled and enabled later: enabling counts too', async () => {
    const setting = await setUp();
    const { owner } = setting;
    const rules: Record<string, unknown>[] = [];
    for (let n = 0; n < 4; n++) rules.push((await rule(false)(setting, n)).body);
    const enable = ({ id, name, destination_id }: Record<string, unknown>, enabled: boolean) =>
      owner.call('PUT', `./event-forwarding-rules/${id}`, { name, destination_id, enabled });
    const statuses: number[] = [];
    for (const each of rules) statuses.push((await enable(each, true)).status);
    expect(statuses).toEqual([200, 200, 409, 409]);
    const [first, , third] = rules;
    // A change of an enabled rule does not count against the quota.
    expect((await enable({ ...first, name: 'renamed' }, true)).status).toBe(200);
    expect((await enable({ ...first }, false)).status).toBe(200);
    expect((await enable({ ...third }, true)).status).toBe(200);
  });

  it('grew without a bound by versions of a transformation: the retained versions count', async () => {
    const { owner } = await setUp();
    const { id } = await owner.ok<{ id: string }>('POST', './event-transformations', program(0, 3_000));
    const change = (n: number) => owner.call('PUT', `./event-transformations/${id}`, program(n, 3_000 + n));
    let [made, answer] = [0, await change(1)];
    for (; answer.status === 200 && made < 20; made++) answer = await change(made + 2);
    expect(answer).toMatchObject({ status: 409, body: { quota: 'catalog_characters', limit: 20_000 } });
    // A smaller program fits again.
    expect((await owner.call('PUT', `./event-transformations/${id}`, program(0, 10))).status).toBe(200);
    await owner.ok('DELETE', `./event-transformations/${id}`);
    await owner.ok('POST', './event-transformations', program(0, 3_000));
  });
});

it('the catalog grew with each of a million changes: changes have a rate limit, and removals have none', async () => {
  const rates = { perScope: 5, perAccount: 50 };
  const quotas = Object.fromEntries(QUOTA_NAMES.map((name) => [name, QUOTAS[name].fallback])) as Quotas;
  const changeLimits = new ChangeLimits({ quotas, rates, elapsed: () => 0 });
  const limited = await openTestGateway({ dependencies: { changeLimits } });
  onTestFinished(() => limited.close());
  const owner = await limited.openWorkspace();
  const { id } = await owner.ok<{ id: string }>('POST', './sources', { name: 's', type: 'web' });
  const change = (n: number) => owner.call('PUT', `./sources/${id}`, { name: `s${n}`, type: 'web' });
  for (let n = 0; n < 4; n++) expect((await change(n)).status).toBe(200);
  const refused = await change(5);
  expect(refused).toMatchObject({
    status: 429,
    body: { error: 'too many requests', quota: 'changes_per_minute', limit: 5 },
  });
  expect(refused.headers['retry-after']).toBe('12');
  // A request without a change appends no fact.
  expect((await change(3)).status).toBe(200);
  const other = await limited.openWorkspace();
  await other.ok('POST', './sources', { name: 's', type: 'web' });
  await owner.ok('DELETE', `./sources/${id}`);
});

it('quotas are tested above for every route that creates an entity', () => {
  const creating = test.routes
    .filter(({ method, schema }) => method === 'POST' && '201' in ((schema?.response ?? {}) as object))
    .map(({ config }) => config?.operation)
    .toSorted();
  expect(creating).toEqual([
    'alerts.create',
    'api-keys.create',
    'client-keys.create',
    'destinations.create',
    'event-contracts.create',
    'event-forwarding-rules.create',
    'event-keys.create',
    'event-transformations.create',
    'organization-members.create',
    'organizations.create',
    'replays.create',
    'sources.create',
    'workspace-members.create',
    'workspaces.create',
  ]);
});
