import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mountSmallDisk, temporaryFolder, whyNoMounts } from '../../helpers/folder.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { serveEnvironment } from '../../helpers/serve.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;
const noMounts = await whyNoMounts();
if (noMounts !== undefined)
  console.warn(`SKIPPED, as nothing can be mounted here: full and read-only disks (${noMounts})`);

/** A library that takes away file locks, as file systems without them do; undefined without a C compiler. */
const noCompiler = spawnSync('gcc', ['--version']).status !== 0;
if (noCompiler) console.warn('SKIPPED, as there is no gcc: a file system without locks');
const NO_LOCKS = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#define WITHOUT_LOCKS(name) int name(int fd, int cmd, ...) { \\
  va_list list; va_start(list, cmd); void *arg = va_arg(list, void *); va_end(list); \\
  if (cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK) { errno = ERROR; return -1; } \\
  int (*real)(int, int, ...) = dlsym(RTLD_NEXT, #name); return real(fd, cmd, arg); }
WITHOUT_LOCKS(fcntl)
WITHOUT_LOCKS(fcntl64)
`;

describe('an unusable data folder is one line with its path', () => {
  let parent: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeAll(async () => {
    parent = await temporaryFolder();
    await ranHere(['serve'], {}); // loads the command, which another user could not
  });
  afterAll(() => parent.remove());

  async function refused(folder: string, reason: RegExp): Promise<void> {
    for (const command of [['serve'], ['admin', 'init', '--no-owner']]) {
      const { code, output, log } = await ranHere(command, serveEnvironment(folder));
      expect([code, output]).toEqual([1, '']);
      expect(log).toMatch(reason);
      expect(log).toMatch(
        new RegExp(
          `^tributary ${command.slice(0, 2).join(' ')}: the data folder ${folder} cannot be used: .*\\n$`,
        ),
      );
    }
  }

  it('a file, or a part of the path that is one', async () => {
    const file = join(parent.path, 'file');
    writeFileSync(file, '');
    await refused(file, /it is a file/);
    await refused(join(file, 'data'), /a part of its path is a file/);
  });

  it('a parent that does not exist: nothing is created', async () => {
    await refused(join(parent.path, 'missing', 'data'), /missing does not exist: create it, mount its disk/);
    expect(existsSync(join(parent.path, 'missing'))).toBe(false);
  });

  it('links to nowhere, and to each other', async () => {
    const [lost, one, other] = ['lost', 'one', 'other'].map((name) => join(parent.path, name)) as [
      string,
      string,
      string,
    ];
    symlinkSync(join(parent.path, 'nowhere'), lost);
    symlinkSync(one, other);
    symlinkSync(other, one);
    await refused(lost, /a link that leads nowhere/);
    await refused(one, /links lead to each other/);
  });

  it('not writable for the user of the process', async () => {
    const folder = join(parent.path, 'closed');
    mkdirSync(folder);
    chmodSync(folder, 0o500);
    chmodSync(parent.path, 0o755);
    if (isRoot) process.seteuid?.(NOBODY);
    try {
      await refused(folder, /the user of this process \(uid \d+\) may not write there/);
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  it.skipIf(noMounts !== undefined)('a full disk, and one that is read-only', async () => {
    const disk = await mountSmallDisk(1);
    try {
      const folder = join(disk.path, 'data');
      mkdirSync(folder);
      expect(() => writeFileSync(join(disk.path, 'filler'), Buffer.alloc(2 * 2 ** 20))).toThrow('ENOSPC');
      await refused(folder, /its disk is full/);
      disk.remount('ro');
      await refused(folder, /its file system is read-only/);
      expect(readdirSync(folder)).toEqual([]);
    } finally {
      await disk.remove();
    }
  });

  it.skipIf(noCompiler)('a file system without locks, whatever error it gives', async () => {
    const source = join(parent.path, 'no-locks.c');
    writeFileSync(source, NO_LOCKS);
    for (const error of ['ENOLCK', 'ENOSYS']) {
      const library = join(parent.path, `${error}.so`);
      const built = spawnSync('gcc', ['-shared', '-fPIC', `-DERROR=${error}`, '-o', library, source, '-ldl']);
      expect(built.status, String(built.stderr)).toBe(0);
      const folder = join(parent.path, error);
      const server = new ServerProcess(['serve'], serveEnvironment(folder, { LD_PRELOAD: library }));
      expect(await server.ended()).toBe(1);
      expect(server.log).toMatch(
        /cannot be used: its file system lacks the file locks or shared memory.*\n$/,
      );
      expect(server.log.trim().split('\n')).toHaveLength(1);
      expect(readdirSync(folder)).toEqual([]);
    }
  });

  it('another process that holds it is named', async () => {
    const folder = join(parent.path, 'held');
    const environment = serveEnvironment(folder);
    const server = new ServerProcess(['serve'], environment);
    await server.printed(/serve ready/);
    const { code, log } = await ranHere(['serve'], environment);
    expect(code).toBe(1);
    expect(log).toMatch(
      /^tributary serve: .*\/held is used by another running Tributary.*: stop it, or set .*\n$/,
    );
    if (process.platform === 'linux') expect(log).toContain(`process ${server.pid} `);
    expect(await server.stop()).toBe(0);
  });
});
