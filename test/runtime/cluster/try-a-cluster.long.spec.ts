import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { pidOf, withoutTestSettings } from '../../helpers/child.ts';
import { eventually } from '../../helpers/client.ts';
import { clusterEnvironment } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const READY_WITHIN_MS = 120_000;

describe.skipIf(engines() === undefined)('docs/operations/try-a-cluster.md, block by block', () => {
  const prefix = freshPrefix();
  const guide = readFileSync(join(ROOT, 'docs/operations/try-a-cluster.md'), 'utf8');
  const terminals: ChildProcess[] = [];
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let ports: Readonly<Record<string, number>>;
  let environment: Readonly<Record<string, string>>;

  beforeAll(async () => {
    folder = await temporaryFolder();
    ports = { 8080: await freePort(), 8081: await freePort(), 8082: await freePort() };
    const printed = Object.entries(clusterEnvironment(prefix)).map(([name, value]) => `${name}=${value}`);
    await writeFile(join(folder.path, 'engines.env'), `${printed.join('\n')}\nready\n`);
    environment = {
      ...withoutTestSettings(),
      PORT: String(ports[8080]),
      TRIBUTARY_ADMIN_PORT: '0',
      TRIBUTARY_DATA_DIR: folder.path,
    };
  });
  afterAll(async () => {
    await Promise.all(terminals.map(close));
    await removePrefix(prefix);
    await folder.remove();
  });

  /** The blocks of that name, with the ports of this machine and the file of the engines filled in. */
  const blocks = (name: string) =>
    [...guide.matchAll(new RegExp(`^\`\`\`sh ${name}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, block = '']) =>
      Object.entries(ports).reduce(
        (filled, [port, own]) => filled.replaceAll(new RegExp(`\\b${port}\\b`, 'g'), String(own)),
        block.replaceAll('/tmp/engines.env', join(folder.path, 'engines.env')),
      ),
    );

  /** A terminal that runs a block; it is a group of processes, as Ctrl-C ends one. */
  function open(block: string): ChildProcess {
    const terminal = spawn('bash', ['-euc', block], {
      cwd: ROOT,
      env: environment,
      detached: true,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    terminals.push(terminal);
    return terminal;
  }
  async function close(terminal: ChildProcess): Promise<void> {
    if (terminal.exitCode !== null || terminal.signalCode !== null) return;
    const ended = once(terminal, 'exit');
    process.kill(-pidOf(terminal), 'SIGINT');
    await ended;
  }
  const ready = (port: number | undefined) =>
    eventually(
      () =>
        fetch(`http://127.0.0.1:${port}/readyz`).then(
          ({ status }) => status,
          () => 0,
        ),
      (status) => status === 200,
      READY_WITHIN_MS,
    );

  it('runs a gateway and two processors, which count an event once', async () => {
    const [gateway = ''] = blocks('gateway');
    open(gateway).stdout?.resume();
    await ready(ports[8080]);
    const processors = blocks('processor');
    expect(processors).toHaveLength(2);
    for (const block of processors) open(block).stdout?.resume();
    await ready(ports[8081]);
    await ready(ports[8082]);

    const [event = ''] = blocks('event');
    const terminal = open(event);
    let output = '';
    terminal.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
    });
    await once(terminal, 'close');
    expect(output).toContain('"status":"received"');
    expect(output).toMatch(/"event_name":"Signed Up".*"event_count":1\b/);
  }, 300_000);
});
