import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startEmbedded } from '../helpers/embedded.ts';
import type { Tributary } from '../helpers/running-tributary.ts';
import { blocksOf } from './blocks.ts';
import { Shell } from './shell.ts';

/* Runs the examples of docs/guides/profiles.md. */

let tributary: Tributary;
let shell: Shell;

beforeAll(async () => {
  tributary = await startEmbedded(mkdtempSync(join(tmpdir(), 'tributary-')), {});
  shell = new Shell({ TRIBUTARY_DATA_DIR: tributary.folder });
});

afterAll(async () => {
  await shell.close();
  await tributary.remove();
});

it('the guide to profiles prints what it says', async () => {
  const blocks = blocksOf('profiles', { 'http://127.0.0.1:8080': tributary.url });
  expect(blocks.map(({ language }) => language).join(' ')).toBe(
    'sh sh sh text sh text sh text sh text sh text sh text',
  );
  for (const [at, { language, text }] of blocks.entries()) {
    if (language !== 'sh') continue;
    const next = blocks[at + 1];
    const expected = next?.language === 'text' ? next.text : '';
    const printed = await shell.run(text);
    expect(printed.map((line) => `${line}\n`).join(''), text).toBe(expected);
  }
});
