import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startEmbedded } from '../helpers/embedded.ts';
import type { Tributary } from '../helpers/running-tributary.ts';
import { blocksOf } from './blocks.ts';
import { Shell } from './shell.ts';

/* Runs the examples of docs/guides/tracking-plan.md. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
let tributary: Tributary;
let shell: Shell;
let temporary: string;

beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'tributary-guide-'));
  tributary = await startEmbedded(mkdtempSync(join(tmpdir(), 'tributary-')), {});
  shell = new Shell({ TMPDIR: temporary });
});

afterAll(async () => {
  await shell.close();
  await tributary.remove();
  await rm(temporary, { recursive: true, force: true });
});

it('the guide to tracking plans prints what it says, and its client compiles', async () => {
  const blocks = blocksOf('tracking-plan', {
    'http://127.0.0.1:8080': tributary.url,
    '<workspace>': tributary.workspaceId,
    '<write key>': tributary.writeKey,
    '<ID token>': tributary.idToken,
  });
  expect(blocks.map(({ language }) => language).join(' ')).toBe('sh sh text sh text sh text sh text ts');
  for (const [at, { language, text }] of blocks.entries()) {
    if (language !== 'sh') continue;
    const next = blocks[at + 1];
    const expected = next?.language === 'text' ? next.text : '';
    const printed = await shell.run(text);
    expect(printed.map((line) => `${line}\n`).join(''), text).toBe(expected);
  }
  const [folder = ''] = readdirSync(temporary).filter((name) => name.startsWith('tmp.'));
  const file = join(temporary, folder, 'send.ts');
  await symlink(join(ROOT, 'node_modules'), join(temporary, folder, 'node_modules'));
  writeFileSync(join(temporary, folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(file, blocks.find(({ language }) => language === 'ts')?.text ?? '');
  const program = ts.createProgram([file], {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    allowImportingTsExtensions: true,
    lib: ['lib.es2024.d.ts', 'lib.dom.d.ts'],
    types: [],
  });
  expect(ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText)).toEqual([]);
}, 240_000);
