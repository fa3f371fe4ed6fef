import { readFileSync } from 'node:fs';

/** A user of this machine. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Who may be it: the user of Debian's package, else the one that owns nothing. */
const USERS = ['postgres', 'nobody'];

/** As whom a program runs that refuses to be root; undefined where this process is not root itself. */
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
