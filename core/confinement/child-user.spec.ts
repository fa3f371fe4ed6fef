import { describe, expect, it } from 'vitest';
import { NO_LOGGER } from '../observability/logger.ts';
import { ChildUser } from './child-user.ts';

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
