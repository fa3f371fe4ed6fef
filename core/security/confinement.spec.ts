import { describe, expect, it } from 'vitest';
import { NO_LOGGER } from '../ports/logger.ts';
import { ChildUser, confinedCommand } from './confinement.ts';

describe('the user of child processes, where this process is root’s', () => {
  const user = (isRoot = true) =>
    new ChildUser({ uid: 65_534, isRoot, children: 'sandbox workers', logger: NO_LOGGER });

  it('is its own where this process is not root’s', () => {
    expect(user(false).identity).toEqual({});
    expect(user(false).failed('exit code 1')).toBe(false);
  });

  it('is its own once two starts have shown that the other one may not read', () => {
    const its = user();
    expect(its.failed('exit code 1 Error: EACCES: permission denied')).toBe(false);
    expect(its.identity).toEqual({ uid: 65_534, gid: 65_534 });
    expect(its.failed('spawn node EACCES')).toBe(true);
    expect(its.identity).toEqual({});
  });

  it('stays the other one when starts are slow and killed, or find no room', () => {
    const its = user();
    for (const detail of ['SIGKILL', 'SIGKILL out of time', 'spawn node EAGAIN', 'spawn ENOMEM'])
      for (let time = 0; time < 5; time++) expect(its.failed(detail)).toBe(false);
    expect(its.identity).toEqual({ uid: 65_534, gid: 65_534 });
  });

  it('stays the other one after a worker came up as it', () => {
    const its = user();
    its.worked();
    for (let time = 0; time < 5; time++) expect(its.failed('exit code 1')).toBe(false);
    expect(its.identity).toEqual({ uid: 65_534, gid: 65_534 });
  });
});

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
