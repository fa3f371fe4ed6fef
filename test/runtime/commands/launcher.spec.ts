import { spawn } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';

const LAUNCHER = fileURLToPath(new URL('../../../infra/runtime/tributary', import.meta.url));
const PATH_OF_TOOLS = ['/usr/bin', '/bin'].join(delimiter);

/** A folder for the front of the PATH with a `node` that reports this version. */
async function folderWithNode(version: string): Promise<string> {
  const folder = await temporaryFolder();
  onTestFinished(() => folder.remove());
  await writeFile(join(folder.path, 'node'), `#!/bin/sh\necho ${version}\n`, { mode: 0o755 });
  return folder.path;
}

async function run(program: string, path: string) {
  const child = spawn(program, ['config'], { env: { PATH: path } });
  const [out, err, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise((resolve) => child.once('close', resolve)),
  ]);
  return { out, err, code };
}

it('the command died with a stack trace where the `node` on the PATH is 20: it runs with the packages’ own', async () => {
  const path = `${await folderWithNode('v20.11.0')}${delimiter}${PATH_OF_TOOLS}`;
  const { out, code } = await run(LAUNCHER, path);
  expect(code).toBe(0);
  expect(out).toContain('| `TRIBUTARY_DATA_DIR` |');
});

it.each(['v20.11.0', 'v22.21.0'])(
  'without a Node of the packages, %s is refused in one line',
  async (version) => {
    const folder = await temporaryFolder();
    onTestFinished(() => folder.remove());
    const runtime = join(folder.path, 'infra', 'runtime');
    await mkdir(runtime, { recursive: true });
    await copyFile(LAUNCHER, join(runtime, 'tributary'));
    const path = `${await folderWithNode(version)}${delimiter}${PATH_OF_TOOLS}`;
    const { err, code } = await run(join(runtime, 'tributary'), path);
    expect(code).toBe(1);
    expect(err).toMatch(new RegExp(`^tributary: Node 24 is needed, and ${version} is on the PATH: .*\n$`));
  },
);
