import { access, constants, readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { EngineMissing } from '../engine.ts';

export const MISSING = 'install PostgreSQL (Debian: apt-get install postgresql)';

/** Debian's folder with the programs of each release, which are not in the PATH. */
const DEBIAN = '/usr/lib/postgresql';

export interface PostgresPrograms {
  readonly initdb: string;
  readonly postgres: string;
}

/**
 * The programs of a server: Debian's newest release, else those in the PATH. `EngineMissing` when there are
 * none.
 */
export async function findPrograms(path: string): Promise<PostgresPrograms> {
  const releases = (await readdir(DEBIAN).catch(() => [])).sort((a, b) => Number(b) - Number(a));
  const folders = [...releases.map((release) => join(DEBIAN, release, 'bin')), ...path.split(delimiter)];
  for (const folder of folders) {
    const programs = { initdb: join(folder, 'initdb'), postgres: join(folder, 'postgres') };
    if ((await runs(programs.initdb)) && (await runs(programs.postgres))) return programs;
  }
  throw new EngineMissing(`no PostgreSQL server: ${MISSING}`);
}

function runs(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
