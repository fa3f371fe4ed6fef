import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** Another process works in the data folder. */
export class FolderInUse extends Error {
  constructor(folder: string, options?: ErrorOptions) {
    super(
      `${folder} is used by another running Tributary: stop it, or set TRIBUTARY_DATA_DIR to another folder`,
      options,
    );
    this.name = 'FolderInUse';
  }
}

/** Holds the data folder for one process; the operating system lets go of it however the process ends. */
export function lockFolder(folder: string): { release(): void } {
  mkdirSync(folder, { recursive: true });
  const database = new DatabaseSync(join(folder, 'lock.db'), { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    throw new FolderInUse(folder, { cause: error });
  }
  return { release: () => database.close() };
}
