import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SECRET_KEY_BYTES } from '@tributary/core';
import { createOnce } from '../process/create-once.ts';
import { lockFolder } from '../process/folder-lock.ts';

/** The keys of a data folder, in the form of `TRIBUTARY_SECRET_KEYS`, as JSON text. */
export function keyFile(dataFolder: string): string {
  return join(dataFolder, 'secret-keys.json');
}

export function hasKeyFile(dataFolder: string): boolean {
  return existsSync(keyFile(dataFolder));
}

/** The text of the file, which is made with one key where there is none. */
export function readKeyFile(dataFolder: string): string {
  return JSON.parse(createOnce(keyFile(dataFolder), () => JSON.stringify(newKey('local')))) as string;
}

/**
 * Puts a new key before the others; answers its id. The file changes at once and whole. `FolderInUse` while another
 * process does the same: of two keys written at once one would be lost, with all that was sealed under it.
 */
export function addKeyToFile(dataFolder: string): string {
  const lock = lockFolder(join(dataFolder, 'secret-keys.lock'));
  const file = keyFile(dataFolder);
  const draft = `${file}.${randomUUID()}`;
  try {
    const kid = `local-${randomBytes(4).toString('hex')}`;
    const keys = `${newKey(kid)},${readKeyFile(dataFolder)}`;
    writeFileSync(draft, JSON.stringify(keys), { mode: 0o600, flush: true });
    renameSync(draft, file);
    return kid;
  } finally {
    rmSync(draft, { force: true });
    lock.release();
  }
}

function newKey(kid: string): string {
  return `${kid}:${randomBytes(SECRET_KEY_BYTES).toString('base64')}`;
}
