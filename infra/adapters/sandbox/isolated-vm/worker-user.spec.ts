import { NO_LOGGER } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WorkerUser } from './worker-user.ts';

describe('the user of sandbox workers, where this process is root’s', () => {
  beforeEach(() => {
    vi.spyOn(process, 'getuid').mockReturnValue(0);
  });
  afterEach(() => vi.restoreAllMocks());

  const user = () => new WorkerUser(65_534, NO_LOGGER);

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
