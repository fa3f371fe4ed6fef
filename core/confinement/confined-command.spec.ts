import { expect, it } from 'vitest';
import { confinedCommand } from './confined-command.ts';

const program = {
  node: '/opt/node',
  flags: ['--max-old-space-size=128'],
  script: '/srv/tributary/connectors/segment/worker.ts',
  folder: '/srv/tributary/connectors/segment',
  args: ['{}'],
};

it('a confined program reads its folder and the packages, and not the folder that holds both and the data', () => {
  const [command, args] = confinedCommand(program, []);
  expect(command).toBe('/opt/node');
  expect(args[0]).toBe('--permission');
  const readable = args.flatMap((arg) => /^--allow-fs-read=(.*)$/.exec(arg)?.[1] ?? []);
  expect(readable).toEqual([
    '/srv/tributary/connectors/segment',
    '/srv/tributary/connectors/segment/node_modules',
    '/srv/tributary/connectors/node_modules',
    '/srv/tributary/node_modules',
    '/srv/node_modules',
    '/node_modules',
  ]);
  expect(args.filter((arg) => /write|child|worker|addons|wasi/.test(arg))).toEqual([
    '--allow-fs-write=/proc/self/oom_score_adj',
    program.script,
  ]);
  expect(args.slice(-3)).toEqual(['--max-old-space-size=128', program.script, '{}']);
});

it('a wrapper starts the same command', () => {
  const [command, args] = confinedCommand(program, ['/usr/bin/setpriv', '--no-new-privs']);
  expect([command, ...args]).toEqual([
    '/usr/bin/setpriv',
    '--no-new-privs',
    '/opt/node',
    ...confinedCommand(program, [])[1],
  ]);
});
