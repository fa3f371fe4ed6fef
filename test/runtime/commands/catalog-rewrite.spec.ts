import { randomInt, randomUUID } from 'node:crypto';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Dice } from '../../chaos/dice.ts';
import { Client, eventually } from '../../helpers/client.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** The step the command has reported when it is killed: right behind the step, or during the next. */
const KILLED_AT = ['begun', 'ended', 'awaited'] as const;

/** The pause between two edits: a workspace has a quota of changes a minute. */
const PAUSE_MS = 200;

/** All steps, several times; the short form uses one, another in each run. */
function killedAt(): readonly string[] {
  if (process.env.TRIBUTARY_TEST_LONG) return Array.from({ length: 4 }, () => KILLED_AT).flat();
  const seed = randomInt(2 ** 31);
  const step = new Dice(seed).pick(KILLED_AT);
  console.log(`the rewrite is killed at "${step}" (seed ${seed})`);
  return [step];
}

/** The command as an operator runs it, beside a running server. */
describe('tributary catalog rewrite', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  const start = (...words: readonly string[]) =>
    new ServerProcess(words, { TRIBUTARY_DATA_DIR: tributary.folder, LOG_LEVEL: 'info' });
  const runHere = (...words: readonly string[]) => ranHere(words, { TRIBUTARY_DATA_DIR: tributary.folder });
  async function ran(...words: readonly string[]): Promise<string> {
    const run = start(...words);
    expect(await run.ended(), run.log).toBe(0);
    return run.output;
  }

  /** The files that contain the text, except those of the history: the audit log has its own retention. */
  async function holding(text: string): Promise<readonly string[]> {
    const found: string[] = [];
    for (const entry of await readdir(tributary.folder, { recursive: true, withFileTypes: true })) {
      const file = join(entry.parentPath, entry.name);
      if (!entry.isFile() || file.startsWith(join(tributary.folder, 'history'))) continue;
      if ((await readFile(file)).includes(text)) found.push(file.slice(tributary.folder.length));
    }
    return found;
  }

  async function restarted(): Promise<void> {
    const { folder } = tributary;
    expect(await tributary.stop()).toBe(0);
    tributary = await startTributary({ folder });
  }

  const someone = () => `planted-gone-${randomUUID()}@example.com`;
  const addMember = async (email: string) =>
    tributary.owner.post<{ id: string }>('./members', { email, role: 'viewer' });
  const members = () => tributary.owner.get<readonly { email: string | null }[]>('./members');

  it('erases deleted people from every file beside a running server, and a starting one has the rest', async () => {
    const gone = someone();
    const { id } = await addMember(gone);
    await addMember('stays@example.com');
    await restarted(); // with a snapshot that knows them
    expect((await tributary.owner.call('DELETE', `./members/${id}`)).status).toBe(200);
    expect((await holding(gone)).length).toBeGreaterThan(0);
    const known = await members();
    const { output } = await runHere('catalog', 'rewrite');
    expect(output).toMatch(/^the catalog begins at \d+ now, with \d+ rows in 1 record; \d+ records below it/);
    expect(output).toContain('goes with its retention');
    expect(await holding(gone)).toEqual([]);
    expect(await holding('stays@example.com')).not.toEqual([]);
    expect(await members()).toEqual(known);
    await addMember('later@example.com');
    const after = await members();
    const { folder } = tributary;
    expect(await tributary.stop()).toBe(0);
    expect(await holding(gone)).toEqual([]); // nor does the snapshot that it left
    // A start without a snapshot has only the rows.
    await rm(join(folder, 'catalog.snapshot'));
    tributary = await startTributary({ folder });
    expect(await members()).toEqual(after);
  });

  it('leaves no secret sealed under the old key after a rotation', async () => {
    const settings = { url: 'https://example.com', headers: { authorization: 'token of before' } };
    const body = { name: 'd', type: 'webhook', settings, enabled: true };
    const { id } = await tributary.owner.post<{ id: string }>('./destinations', body);
    const sealed = '"$sealed":"local.';
    expect((await holding(sealed)).length).toBeGreaterThan(0);
    expect(await runHere('secrets', 'rotate')).toMatchObject({ code: 0 });
    expect((await holding(sealed)).length).toBeGreaterThan(0);
    expect(await runHere('catalog', 'rewrite')).toMatchObject({ code: 0 });
    const known = await members();
    expect(await holding(sealed)).toEqual([]);
    expect((await holding('"$sealed":"local-')).length).toBeGreaterThan(0);
    await restarted();
    const stored = await tributary.owner.get<{ name: string }>(`./destinations/${id}`);
    expect(stored.name).toBe('d');
    expect(await members()).toEqual(known);
    expect(await holding(sealed)).toEqual([]);
  });

  it('can be killed at any moment beside concurrent changes, and run again until it is complete', async () => {
    const gone = someone();
    const { id } = await addMember(gone);
    expect((await tributary.owner.call('DELETE', `./members/${id}`)).status).toBe(200);
    let editing = true;
    let made = 0;
    // Renames one source repeatedly: a workspace has quotas of sources and of changes a minute.
    const { id: sourceId } = await tributary.owner.post<{ id: string }>('./sources', {
      name: 's',
      type: 'web',
    });
    const edits = (async () => {
      for (; editing; made++) {
        await tributary.owner.put(`./sources/${sourceId}`, { name: `s${made}`, type: 'web' });
        await sleep(PAUSE_MS);
      }
    })();
    for (const step of killedAt()) {
      const run = start('catalog', 'rewrite');
      await run.logged(new RegExp(`"step":"${step}"`));
      await run.kill();
    }
    // Two concurrent rewrites. One that the other has overtaken says so.
    const other = start('catalog', 'rewrite');
    const [here] = await Promise.all([runHere('catalog', 'rewrite'), other.ended()]);
    for (const { output, log } of [here, other])
      expect(output + log).toMatch(/the catalog begins at|overtaken by another one/);
    expect(await ran('catalog', 'rewrite')).toContain('the catalog begins at');
    editing = false;
    await edits;
    expect(await holding(gone)).toEqual([]);
    const sources = () => tributary.owner.get<readonly unknown[]>('./sources?limit=1');
    const before = await sources();
    await restarted();
    expect(await sources()).toEqual(before);
    expect(made).toBeGreaterThan(0);
  });

  it('keeps the audit entries of members who joined by a first sign-in during the rewrite', async () => {
    const email = 'joins@example.com';
    await addMember(email);
    expect(await runHere('catalog', 'rewrite')).toMatchObject({ code: 0 });
    const token = await openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' }).mint(email);
    const person = new Client(tributary.url, token, tributary.workspaceId);
    expect((await person.call('GET', './sources')).status).toBe(200);
    const log = await eventually(
      () => tributary.owner.get<readonly unknown[]>('./audit-log?action=joined'),
      (entries) => entries.length > 0,
    );
    expect(log).toMatchObject([
      { action: 'joined', actor: { type: 'account', email }, entity: { type: 'workspace_member' } },
    ]);
  });
});
