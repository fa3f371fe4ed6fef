import { OperatorError } from '../process/lifecycle.ts';
import {
  BackupFault,
  backupName,
  chunkKey,
  isManifestKey,
  type Manifest,
  parseManifest,
} from './manifest.ts';
import type { BackupTarget } from './target.ts';

/** The finished backups of a target, oldest first, by the keys of their manifests. */
export async function manifestKeys(target: BackupTarget): Promise<readonly string[]> {
  return [...(await target.list('manifests')).keys()].filter(isManifestKey).sort();
}

export async function readManifest(target: BackupTarget, key: string): Promise<Manifest> {
  const content = await target.get(key);
  if (content === undefined) throw new BackupFault(`${target.name} has no backup ${backupName(key)}`);
  return parseManifest(backupName(key), Buffer.from(content).toString('utf8'));
}

/** The newest manifest that can be read: a damaged one stands in the way of a restore, not of the next backup. */
export async function newestManifest(target: BackupTarget): Promise<Manifest | undefined> {
  for (const key of (await manifestKeys(target)).toReversed())
    try {
      return await readManifest(target, key);
    } catch (error) {
      if (!(error instanceof BackupFault)) throw error;
    }
  return undefined;
}

/** The backup of that name, or the newest one. `OperatorError` where there is none that was finished. */
export async function findBackup(target: BackupTarget, name?: string): Promise<Manifest> {
  const keys = await manifestKeys(target);
  const key = name === undefined ? keys.at(-1) : keys.find((one) => backupName(one) === name);
  if (key !== undefined) return readManifest(target, key);
  if (keys.length > 0)
    throw new OperatorError(
      `${target.name} has no backup ${name}: \`tributary restore --list\` names those it has`,
    );
  const parts = (await target.list('chunks')).size;
  throw new OperatorError(
    parts > 0
      ? `${target.name} holds an unfinished backup only: there is nothing to restore`
      : `${target.name} holds no backup`,
  );
}

/**
 * Removes all but the newest backups, and the chunks that none of those has. The manifests go first: killed in between, it
 * leaves chunks that the next run removes. No other backup may write to the target meanwhile.
 */
export async function removeOlder(target: BackupTarget, keep: number): Promise<{ readonly removed: number }> {
  const keys = await manifestKeys(target);
  const older = keys.slice(0, -keep);
  const used = new Set<string>();
  for (const key of keys.slice(-keep))
    for (const { chunks } of (await readManifest(target, key)).files)
      for (const { sha256 } of chunks) used.add(chunkKey(sha256));
  for (const key of older) await target.remove(key);
  for (const key of (await target.list('chunks')).keys()) if (!used.has(key)) await target.remove(key);
  return { removed: older.length };
}
