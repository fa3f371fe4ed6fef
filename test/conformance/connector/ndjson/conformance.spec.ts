import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectorConformance } from '../suite/connector.conformance.ts';
import { type ConnectorHarness, type ReceivedBody, WORKSPACE_ID } from '../suite/harness.ts';

connectorConformance('ndjson', ndjsonHarness);

async function ndjsonHarness(): Promise<ConnectorHarness> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'tributary-ndjson-'));
  const workspace = join(dataFolder, 'ndjson', WORKSPACE_ID);
  const folder = join(workspace, 'team', 'orders');
  await mkdir(folder, { recursive: true });
  await symlink(tmpdir(), join(workspace, 'elsewhere'));
  return {
    settings: { folder: 'team/orders' },
    hopeless: { folder: 'elsewhere' },
    connectors: { dataFolder },
    ordered: true,
    idempotent: false,
    received: () => linesIn(folder),
    fail: async () => {
      await rename(folder, `${folder}.aside`);
      await writeFile(folder, 'a file where the folder should be');
    },
    mend: async () => {
      await unlink(folder);
      await rename(`${folder}.aside`, folder);
    },
    close: () => rm(dataFolder, { recursive: true, force: true }),
  };
}

async function linesIn(folder: string): Promise<readonly ReceivedBody[]> {
  const files = (await readdir(folder)).sort();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  const lines = texts.flatMap((text) => text.split('\n')).filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as ReceivedBody);
}
