import { readFileSync, statSync } from 'node:fs';

/** Endings of the files whose locks keep others from a database: the file itself, and the index of its log. */
const LOCKED_FILES = ['', '-shm'];

/** One line of `/proc/locks`. */
const LOCK = /^\d+: POSIX +\S+ +WRITE +(?<pid>\d+) +(?<major>[0-9a-f]+):(?<minor>[0-9a-f]+):(?<inode>\d+) /gm;

/**
 * Which process keeps others from writing to a database, in words for a log: found in `/proc`, so on Linux alone.
 * Undefined where it is not known, e.g. because the lock was released meanwhile.
 */
export function lockHolderOf(file: string): string | undefined {
  try {
    const inodes = new Set(LOCKED_FILES.flatMap((ending) => inodeOf(file + ending)));
    const locks = [...readFileSync('/proc/locks', 'utf8').matchAll(LOCK)];
    const pids = new Set(
      locks.filter(({ groups }) => inodes.has(groups?.inode ?? '')).map(({ groups }) => Number(groups?.pid)),
    );
    // What is asked for is locked by somebody else: a lock of this process is that of another file's, or of another thread.
    const [pid] = [...pids].sort((a, b) => Number(a === process.pid) - Number(b === process.pid));
    return pid === undefined ? undefined : describeProcess(pid);
  } catch {
    return undefined; // no /proc, or none that may be read
  }
}

function inodeOf(file: string): readonly string[] {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? [] : [String(found.ino)];
}

/** A process that was stopped keeps its locks for as long as it is. */
function describeProcess(pid: number): string {
  if (pid === process.pid) return 'another thread of this process';
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
  const isStopped = /^\) [Tt] /.test(stat.slice(stat.lastIndexOf(')')));
  return `process ${pid} (${name}${isStopped ? ', which is stopped' : ''})`;
}
