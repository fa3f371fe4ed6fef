import { createHash } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { admin, type Initialized, serveEnvironment } from '../../helpers/serve.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

interface Status {
  readonly organizations: readonly {
    readonly id: string;
    readonly members: readonly { readonly email: string; readonly role: string; readonly status: string }[];
    readonly workspaces: readonly {
      readonly id: string;
      readonly api_keys: readonly { readonly name: string }[];
    }[];
  }[];
}

interface Key {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly may_manage: readonly string[];
  readonly expires_at: string | null;
  readonly changed: boolean;
  readonly key: string | null;
}

describe('tributary admin', () => {
  let parent: Awaited<ReturnType<typeof temporaryFolder>>;
  let count = 0;
  const fresh = () => serveEnvironment(join(parent.path, `data-${count++}`), { LOG_LEVEL: 'error' });
  beforeAll(async () => {
    parent = await temporaryFolder();
  });
  afterAll(() => parent.remove());

  const status = (environment: Readonly<Record<string, string>>) => admin<Status>(environment, 'status');

  it('creates one organization, however many runs come at once, and a later run changes nothing', async () => {
    const environment = fresh();
    const words = ['admin', 'init', '--email', 'ada@example.com', '--json'];
    const runs = Array.from({ length: 3 }, () => new ServerProcess(words, environment));
    const codes = await Promise.all(runs.map((run) => run.ended()));
    expect(codes, runs.map(({ log }) => log).join('\n')).toEqual([0, 0, 0]);
    const printed = runs.map(({ output }) => JSON.parse(output) as Initialized);
    expect(new Set(printed.map(({ organization }) => organization.id)).size).toBe(1);
    expect(new Set(printed.map(({ workspace }) => workspace.id)).size).toBe(1);
    const before = await status(environment);
    expect(before.organizations).toMatchObject([
      { members: [{ email: 'ada@example.com', role: 'owner', status: 'pending' }], workspaces: [{}] },
    ]);
    const again = await admin<Initialized>(
      environment,
      'init',
      '--email',
      'ada@example.com',
      '--organization',
      'Other',
    );
    expect(again).toMatchObject({
      organization: { changed: false },
      workspace: { changed: false },
      api_key: { key: null },
    });
    expect(await status(environment)).toEqual(before);
  });

  it('a run that was killed is finished by the next one', async () => {
    const environment = fresh();
    const run = new ServerProcess(['admin', 'init', '--email', 'ada@example.com'], environment);
    const log = join(environment.TRIBUTARY_DATA_DIR ?? '', 'log');
    while (!existsSync(log)) await new Promise((resolve) => setTimeout(resolve, 5));
    await run.kill();
    const { owner, organization } = await admin<Initialized>(
      environment,
      'init',
      '--email',
      'ada@example.com',
    );
    expect(owner).toMatchObject({ email: 'ada@example.com', role: 'owner' });
    expect((await status(environment)).organizations).toMatchObject([
      { id: organization.id, workspaces: [{}] },
    ]);
  });

  it('adds no owner by a repeated init: another address is refused', async () => {
    const environment = fresh();
    await admin(environment, 'init', '--email', 'ada@example.com');
    const other = await ranHere(['admin', 'init', '--email', 'bob@example.com'], environment);
    expect(other.code).toBe(1);
    expect(other.log).toMatch(/^tributary admin init: bob@example\.com is no member of .* add-member .*\n$/);
    expect((await status(environment)).organizations[0]?.members).toHaveLength(1);
  });

  it('gives people roles by address, and raises them, never lowers them', async () => {
    const environment = fresh();
    await admin(environment, 'init', '--email', 'ada@example.com');
    const add = (role: string) =>
      admin<{ role: string; changed: boolean }>(
        environment,
        'add-member',
        '--email',
        'Bob@example.com',
        '--role',
        role,
      );
    expect(await add('member')).toMatchObject({ role: 'member', changed: true });
    expect(await add('owner')).toMatchObject({ role: 'owner', changed: true });
    expect(await add('admin')).toMatchObject({ role: 'owner', changed: false });
    expect((await status(environment)).organizations[0]?.members).toMatchObject([
      { email: 'ada@example.com' },
      { email: 'bob@example.com', role: 'owner' },
    ]);
  });

  it('creates a key once for each name, replaces it on demand, and stores no text of a key', async () => {
    const environment = fresh();
    await admin(environment, 'init', '--no-owner');
    const create = (...words: readonly string[]) =>
      admin<Key>(environment, 'create-key', '--name', 'export', ...words);
    const first = await create('--role', 'viewer', '--expires-in', '90d');
    expect(first).toMatchObject({ role: 'viewer', changed: true });
    expect(Date.parse(first.expires_at ?? '')).toBeGreaterThan(Date.now() + 89 * 86_400_000);
    expect(await create()).toMatchObject({ id: first.id, changed: false, key: null });
    const second = await create('--replace', '--may-manage', 'members,keys');
    expect(second).toMatchObject({ role: 'admin', may_manage: ['keys', 'members'], changed: true });
    const keys = (await status(environment)).organizations[0]?.workspaces[0]?.api_keys ?? [];
    expect(keys.filter(({ name }) => name === 'export')).toMatchObject([{ id: second.id }]);
    const files = readdirSync(environment.TRIBUTARY_DATA_DIR ?? '', { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
    for (const { key } of [first, second]) {
      expect(key).toMatch(/^trb_api_/);
      expect(files.some((bytes) => bytes.includes(key ?? ''))).toBe(false);
      const hash = createHash('sha256')
        .update(key ?? '')
        .digest('hex');
      expect(files.some((bytes) => bytes.includes(hash))).toBe(true);
    }
  });

  it('holds the rules of the API: names, regions, addresses and quotas', async () => {
    const environment = fresh();
    const refused = async (code: number, pattern: RegExp, ...words: readonly string[]) => {
      const ran = await ranHere(['admin', ...words], { ...environment, TRIBUTARY_QUOTA_API_KEYS: '1' });
      expect([ran.code, ran.log.trim().split('\n').length]).toEqual([code, 1]);
      expect(ran.log).toMatch(pattern);
    };
    await refused(1, /holds no installation/, 'status');
    await refused(2, /--email names the first owner/, 'init');
    await refused(1, /not an e-mail address/, 'init', '--email', 'ada');
    await refused(1, /--organization must be text/, 'init', '--no-owner', '--organization', ' ');
    await refused(1, /--region must be/, 'init', '--no-owner', '--region', 'EU');
    await refused(1, /no organization with a workspace yet/, 'create-key');
    await admin(environment, 'init', '--no-owner');
    await refused(1, /quota exceeded, quota api_keys, limit 1/, 'create-key', '--name', 'second');
    await refused(
      1,
      /--may-manage requires --role admin/,
      'create-key',
      '--may-manage',
      'keys',
      '--role',
      'viewer',
    );
    await refused(1, /no active workspace has the id/, 'create-key', '--workspace', 'x');
    await refused(1, /no organization has the id/, 'add-member', '--email', 'a@b.c', '--organization', 'x');
    await refused(2, /--may-manage takes keys,members/, 'create-key', '--may-manage', 'all');
  });

  it.skipIf(process.getuid?.() !== 0)('as root writes nothing into the folder of another user', async () => {
    const environment = fresh();
    const folder = environment.TRIBUTARY_DATA_DIR ?? '';
    mkdirSync(folder);
    chownSync(folder, 65_534, 65_534);
    const { code, log } = await ranHere(['admin', 'init', '--no-owner'], environment);
    expect([code, log]).toEqual([1, expect.stringMatching(/belongs to the user with uid 65534.*\n$/)]);
    expect(readdirSync(folder)).toEqual([]);
  });
});
