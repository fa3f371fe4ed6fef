import { readFileSync } from 'node:fs';

/** A user of this machine. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** The candidates: the user of Debian's package, else the unprivileged user. */
const USERS = ['postgres', 'nobody'];

/** The user for a program that refuses to run as root; undefined where this process is not root itself. */
export function ownerOf(uid: number, passwd = () => readFileSync('/etc/passwd', 'utf8')): Owner | undefined {
  if (uid !== 0) return undefined;
  const lines = passwd()
    .split('\n')
    .map((line) => line.split(':'));
  for (const user of USERS) {
    const found = lines.find(([name]) => name === user);
    if (found !== undefined) return { uid: Number(found[2]), gid: Number(found[3]) };
  }
  return undefined;
}
