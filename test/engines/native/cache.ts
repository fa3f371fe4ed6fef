import { randomBytes } from 'node:crypto';
import { access, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const ABANDONED_AFTER_MS = 24 * 60 * 60 * 1000;
const PARTIAL = '.partial-';

/**
 * The folder `name` of the cache, filled by `fill` when it does not exist. It appears in one rename: a killed
 * download leaves no folder that looks complete, and among concurrent ones the first wins.
 */
export async function cachedFolder(
  cacheFolder: string,
  name: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(cacheFolder, name);
  if (await exists(folder)) return folder;
  await removeAbandoned(cacheFolder);
  const partial = join(cacheFolder, `${PARTIAL}${name}-${randomBytes(4).toString('hex')}`);
  await mkdir(partial, { recursive: true });
  try {
    await fill(partial);
    await rename(partial, folder);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    if (!(await exists(folder))) throw error;
  }
  return folder;
}

async function removeAbandoned(cacheFolder: string): Promise<void> {
  await mkdir(cacheFolder, { recursive: true });
  for (const name of await readdir(cacheFolder)) {
    if (!name.startsWith(PARTIAL)) continue;
    const path = join(cacheFolder, name);
    const changed = await stat(path).catch(() => undefined); // another run may have finished it meanwhile
    if (changed !== undefined && Date.now() - changed.mtimeMs > ABANDONED_AFTER_MS)
      await rm(path, { recursive: true, force: true });
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
