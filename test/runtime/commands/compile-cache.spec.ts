import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const LAUNCHER = fileURLToPath(new URL('../../../infra/runtime/tributary', import.meta.url));

describe('the compile cache of the program', () => {
  it('serves the next start, without metadata of its first user', async () => {
    const { PATH = '' } = process.env;
    const env = { PATH, NODE_DEBUG_NATIVE: 'COMPILE_CACHE' };
    const start = () => promisify(execFile)(LAUNCHER, ['config'], { env });
    await start();
    const { stderr } = await start();
    for (const file of ['runtime/main.ts', 'runtime/cli.ts', 'core/index.ts'])
      expect(stderr).toMatch(new RegExp(`V8 code cache for ESM file://\\S+/${file} was accepted`));
  });
});
