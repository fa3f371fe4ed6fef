import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { withoutTestSettings } from '../../helpers/child.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { Terminal, whyNoTerminal } from '../../helpers/terminal.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** The command that `npm start` runs once the console is built. */
const START = 'infra/runtime/tributary dev';

const noTerminal = whyNoTerminal();
if (noTerminal !== undefined) console.warn(`SKIPPED, as ${noTerminal}: the first minutes at a terminal`);

/* A newcomer with two terminals. test/deploy/newcomer.long.alone.spec.ts has the same from a clone, with npm. */
describe.skipIf(noTerminal !== undefined)('the first minutes', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let port: number;
  let server: Terminal;
  const terminals: Terminal[] = [];

  const terminal = (command: string, settings: Readonly<Record<string, string>>) => {
    const { TRIBUTARY_DATA_DIR: _, PORT: __, ...environment } = withoutTestSettings();
    const opened = new Terminal(command, { cwd: ROOT, env: { ...environment, ...settings } });
    terminals.push(opened);
    return opened;
  };
  const settings = (name = 'data') => ({ TRIBUTARY_DATA_DIR: join(folder.path, name) });
  const start = async (env: Readonly<Record<string, string>>) => {
    const started = terminal(START, env);
    await started.shows(/Stop with Ctrl-C/);
    return started;
  };
  const printed = (shown: string) => ({
    workspace: /^ {2}workspace {3}(\S+)$/m.exec(shown)?.[1] ?? '',
    writeKey: /^ {2}write key {3}(\S+)$/m.exec(shown)?.[1] ?? '',
    curl: /^ {2}(curl .+)$/m.exec(shown)?.[1] ?? '',
    token: /another: (.*npm run token)\)$/m.exec(shown)?.[1] ?? '',
    demo: /^Many events: (.*npm run demo)\. /m.exec(shown)?.[1] ?? '',
  });
  /** A busy machine may have reasons to warn: a disk that took seconds. */
  const withoutLog = (shown: string) => shown.replaceAll(/^\{"level".*\n/gm, '');
  const silent = (command: string) => command.replace('npm run', 'npm run --silent');
  const send = async (curl: string) => {
    const { stdout } = await run('bash', ['-c', `${curl} -sS --fail-with-body`]);
    return JSON.parse(stdout) as { readonly message_id: string; readonly status: string };
  };

  beforeAll(async () => {
    folder = await temporaryFolder();
    port = await freePort();
    server = await start({ ...settings(), PORT: String(port) });
  });
  afterAll(async () => {
    await Promise.all(terminals.map((opened) => opened.close()));
    await folder.remove();
  });

  it('a start prints its address, where it keeps its data, and how to send an event, in under 25 lines', () => {
    const lines = withoutLog(server.shown).trim().split('\n');
    expect(lines.length).toBeLessThan(25);
    expect(lines[0]).toMatch(
      new RegExp(`^Tributary \\d+\\.\\d+\\.\\d+( \\([0-9a-f]{12}\\))? is ready at http://127.0.0.1:${port}$`),
    );
    expect(server.shown).toContain(`  console     http://127.0.0.1:${port}/console/#secret=`);
    expect(server.shown).toContain(`  data        ${settings().TRIBUTARY_DATA_DIR}\n`);
  });

  it('the printed line sends an event, and the terminal reports its arrival and the address of its trace', async () => {
    const { curl, workspace } = printed(server.shown);
    const { message_id, status } = await send(curl);
    expect(status).toBe('received');
    const [line] = await server.shows(/^The first event is here: .*$/m);
    expect(line).toBe(
      `The first event is here: track "Signed Up" from ada, accepted. See http://127.0.0.1:${port}/console/w/${workspace}/events/${message_id}`,
    );
  });

  it('the printed command gets the token of the printed workspace, and names its owner', async () => {
    const mine = terminal(silent(printed(server.shown).token), {});
    const hers = terminal('npm run --silent token -- --email grace@example.com', settings());
    expect([await mine.ended(), await hers.ended()]).toEqual([0, 0]);
    const at = `at http://127.0.0.1:${port}: `;
    expect(mine.shown).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n/);
    expect(mine.shown).toContain(
      `\nThe token of dev@tributary.localhost, for an hour, ${at}admin of Quickstart.`,
    );
    expect(hers.shown).toContain(
      `\nThe token of grace@example.com, for an hour, ${at}has access to no workspace yet`,
    );
  });

  it('the demo needed PORT again: it finds the server by the data folder, prints its address, and sends', async () => {
    const demo = terminal(silent(printed(server.shown).demo), {});
    await demo.shows(new RegExp(`^To http://127.0.0.1:${port}, into the workspace New York departures`, 'm'));
    await demo.shows(/sending .* of 33,474/);
    await demo.close();
  });

  it('a second server takes another folder and another port; each missing one is a line', async () => {
    const sameFolder = terminal(START, { ...settings(), PORT: '0' });
    const samePort = terminal(START, { ...settings('other'), PORT: String(port) });
    expect([await sameFolder.ended(), await samePort.ended()]).toEqual([1, 1]);
    expect(withoutLog(sameFolder.shown)).toMatch(
      new RegExp(
        `^tributary dev: .*/data is used by another running Tributary.*, at http://127.0.0.1:${port}: .*\n$`,
      ),
    );
    expect(withoutLog(samePort.shown)).toMatch(
      /^tributary dev: port \d+ on 127.0.0.1 is taken by another program: set PORT .*\n$/,
    );

    const second = await start({ ...settings('other'), PORT: String(await freePort()) });
    const [, url = ''] = await second.shows(/ready at (\S+)/);
    expect(printed(second.shown).workspace).not.toBe(printed(server.shown).workspace);
    const token = terminal('npm run --silent token', settings('other'));
    expect(await token.ended()).toBe(0);
    expect(token.shown).toContain(` at ${url}: admin of Quickstart.`);
    expect(await second.interrupt()).toBe(0);
  });

  it('Ctrl-C ends it with a line and code 0, and a start continues with the same workspace and key', async () => {
    const before = printed(server.shown);
    await send(before.curl);
    expect(await server.interrupt()).toBe(0);
    expect(server.shown).toMatch(/\^C\nStopped\. Everything is kept in \/\S+\/data; .*\n$/);
    expect(server.shown.match(/The first event/g)).toHaveLength(1);

    const again = await start({ ...settings(), PORT: String(port) });
    expect(printed(again.shown)).toEqual(before);
    const { message_id } = await send(before.curl);
    expect((await again.shows(/^The first event is here: .*$/m))[0]).toContain(`/events/${message_id}`);
    expect(await again.interrupt()).toBe(0);
  });
});
