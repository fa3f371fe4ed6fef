import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ranHere } from '../helpers/run-cli.ts';
import { documentUrl } from './figures.ts';

it('docs/operations/commands.md names every command', async () => {
  const { output } = await ranHere(['--help'], {});
  const [, list = ''] = output.split('Commands:\n');
  const commands = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name = '']) => name);
  expect(commands.length).toBeGreaterThan(10);
  const document = readFileSync(documentUrl('docs/operations/commands.md'), 'utf8');
  const named = (name: string) => new RegExp(`\`tributary ${name}\\b`).test(document);
  expect(commands.filter((name) => name !== 'help' && !named(name))).toEqual([]);
});
