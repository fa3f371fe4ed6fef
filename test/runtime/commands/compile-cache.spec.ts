import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const LAUNCHER = fileURLToPath(new URL('../../../infra/runtime/tributary', import.meta.url));

describe('what Node compiled of the program', () => {
  it('is there for the next start, without a word of who starts it', async () => {
    const { PATH = '' } = process.env;
    const env = { PATH, NODE_DEBUG_NATIVE: 'COMPILE_CACHE' };
    const start = () => promisify(execFile)(LAUNCHER, ['config'], { env });
    await start();
    const { stderr } = await start();
    for (const file of ['runtime/main.ts', 'runtime/cli.ts', 'core/index.ts'])
      expect(stderr).toMatch(new RegExp(`V8 code cache for ESM file://\\S+/${file} was accepted`));
  });
});
