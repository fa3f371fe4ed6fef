import { lstat, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { type DeliveryResult, type Json, type JsonObject, mapConcurrently } from '@tributary/core';
import { classifyOwnError, codeOf, FolderRefused } from './failures.ts';
import type { SettingsFault } from './settings.ts';

/*
 * What destinations that write below the data folder share: the setting, the folders, and the failures of the file system.
 */

const MAX_DEPTH = 8;

/** A segment of the path. It begins with a letter, a digit or `_`, so it is neither `..` nor hidden. */
const PART = '[A-Za-z0-9_][A-Za-z0-9._-]*';

export const folderField = {
  type: 'string',
  title: 'Folder',
  description:
    "Where to write: a relative path of letters, digits, `.`, `_`, `-` and `/`, below the workspace's own folder.",
  examples: ['orders'],
  maxLength: 200,
  pattern: `^${PART}(/${PART})*$`,
} as const satisfies JsonObject;

const FOLDER = new RegExp(folderField.pattern, 'u');
const ONE_PART = new RegExp(`^${PART}$`, 'u');

/** Checks of `folderField` that JSON Schema cannot express. */
export function folderFaults({ folder }: JsonObject): readonly SettingsFault[] {
  if (typeof folder !== 'string' || folder.split('/').length <= MAX_DEPTH) return [];
  return [{ path: '/folder', message: `must have at most ${MAX_DEPTH} parts` }];
}

/**
 * The folders of a destination below the data folder, outermost first; none of them is `..`. Undefined for a folder that the
 * setting refuses, and for an invalid workspace id.
 */
export function foldersOf(
  kind: string,
  workspaceId: string,
  folder: Json | undefined,
): readonly string[] | undefined {
  if (typeof folder !== 'string' || !FOLDER.test(folder) || folderFaults({ folder }).length > 0)
    return undefined;
  return ONE_PART.test(workspaceId) ? [kind, workspaceId, ...folder.split('/')] : undefined;
}

const REASONS = new Map([
  ['ENOSPC', 'disk full'],
  ['EDQUOT', 'disk full'],
  ['EROFS', 'the disk is read-only'],
  ['EACCES', 'no permission to write'],
  ['EPERM', 'no permission to write'],
  ['EMFILE', 'too many open files'],
  ['ENFILE', 'too many open files'],
  ['ENOTDIR', 'a part of the folder is no folder'],
]);

/**
 * The result of a failed write. Made from error codes alone, as messages of the file system contain paths. Undefined for an
 * error without a code: it is not of the file system.
 */
export function classifyFolderFailure(error: unknown): DeliveryResult | undefined {
  if (error instanceof FolderRefused) return { outcome: 'dead', reason: 'folder not allowed' };
  const ours = classifyOwnError(error);
  if (ours !== undefined) return ours;
  const code = codeOf(error);
  if (code === undefined) return undefined;
  return { outcome: 'retry', reason: REASONS.get(code) ?? `write failed (${code})` };
}

/**
 * Creates the nested folders `parts` below `root` where they are missing, and returns all their paths, `root` first.
 * Throws `FolderRefused` where one is a symbolic link, and system errors.
 */
export async function openFolders(
  root: string,
  parts: readonly string[],
): Promise<readonly [string, ...string[]]> {
  await mkdir(root, { recursive: true });
  const folders: [string, ...string[]] = [root];
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    await openFolder(path);
    folders.push(path);
  }
  return folders;
}

async function openFolder(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    const found = await lstat(path);
    if (found.isSymbolicLink()) throw new FolderRefused('a part of the folder is a symbolic link');
  }
}

/** Makes the directory entries durable (fsync). */
export async function syncFolders(folders: readonly string[]): Promise<void> {
  await mapConcurrently(folders, SYNCS_AT_ONCE, syncFolder);
}

const SYNCS_AT_ONCE = 8;

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
