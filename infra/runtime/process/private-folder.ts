import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  type Stats,
} from 'node:fs';
import { join } from 'node:path';
import { type Logger, messageOf } from '@tributary/core';

/** Permissions of the group and of everybody else. */
const OTHERS = 0o077;
/** `O_NONBLOCK`: opening a pipe must not wait for a writer. `O_NOFOLLOW`: a link may lead to files of other programs. */
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** Paths named in one line of the log. */
const NAMED = 10;

/**
 * The entries of a data folder. A folder that holds anything else is shared with other programs, e.g. `/tmp`: its own
 * permissions, and those of entries with other names, stay as they are.
 */
const DATA_ENTRIES =
  /^(log|crashes|dedupe|volume|history|health|profiles|ndjson|demo|lock\.db(-.*)?|secret-keys\.(json|lock).*|dev-issuer\.json.*|quickstart\.json.*|.*catalog\.snapshot.*)$/;

interface Findings {
  /** Corrected paths, each with its former mode. */
  readonly corrected: string[];
  /** Paths of other users: their owner decides about them. */
  readonly foreign: string[];
  /** Paths others may open, with the reason why that was not corrected. */
  readonly open: string[];
}

/**
 * Takes the permissions of other users from everything in the data folder: releases before 0.2 created it readable by
 * every user of the machine. What was corrected, and what could not be, is logged with the path and the mode. The folder
 * itself comes first, so that no other user replaces an entry during the walk. Nothing here stops a start.
 */
export function makeFolderPrivate(folder: string, logger: Logger): void {
  const findings: Findings = { corrected: [], foreign: [], open: [] };
  const entries = entriesOf(folder, findings);
  const unknown = entries.filter((name) => !DATA_ENTRIES.test(name));
  if (unknown.length === 0) correct(folder, lstatOf(folder), findings, 'follow');
  else if (isOpen(lstatOf(folder)))
    logger.warn(
      { folder, mode: modeOf(lstatOf(folder)), others: unknown.slice(0, NAMED) },
      'the data folder holds files of other programs and stays open to other users: give Tributary a folder of its own',
    );
  for (const name of entries) if (DATA_ENTRIES.test(name)) walk(join(folder, name), findings);
  report(folder, findings, logger);
}

function walk(path: string, findings: Findings): void {
  const stats = lstatOf(path);
  if (stats === undefined || !(stats.isDirectory() || stats.isFile())) return;
  correct(path, stats, findings);
  if (stats.isDirectory()) for (const name of entriesOf(path, findings)) walk(join(path, name), findings);
}

function correct(path: string, stats: Stats | undefined, findings: Findings, link?: 'follow'): void {
  if (stats === undefined) return;
  if (stats.uid !== process.geteuid?.()) findings.foreign.push(`${path} (uid ${stats.uid})`);
  if (!isOpen(stats) && link === undefined) return;
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, O_RDONLY | O_NONBLOCK | (link === 'follow' ? 0 : O_NOFOLLOW));
    const found = fstatSync(descriptor);
    if (!isOpen(found)) return;
    const was = `${path} (${modeOf(found)})`;
    // A second name may lie outside of the data folder: the file may be that of another program.
    if (found.isFile() && found.nlink > 1) findings.open.push(`${was}: it has other names`);
    else {
      fchmodSync(descriptor, found.mode & 0o700);
      findings.corrected.push(was);
    }
  } catch (error) {
    if (!isGone(error)) findings.open.push(`${path} (${modeOf(stats)}): ${messageOf(error)}`);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function report(folder: string, { corrected, foreign, open }: Findings, logger: Logger): void {
  if (corrected.length > 0)
    logger.warn(
      { folder, count: corrected.length, corrected: corrected.slice(0, NAMED) },
      'other users of this machine had access to the data folder: corrected, to its owner alone',
    );
  if (open.length > 0)
    logger.warn(
      { folder, count: open.length, open: open.slice(0, NAMED) },
      'other users of this machine have access to the data folder, and this process cannot correct it',
    );
  if (foreign.length > 0)
    logger.warn(
      { folder, count: foreign.length, foreign: foreign.slice(0, NAMED), uid: process.geteuid?.() },
      'a part of the data folder belongs to another user, who may read and replace it: chown it to the user of Tributary',
    );
}

/** Another process of the installation may remove entries meanwhile. */
function entriesOf(folder: string, findings: Findings): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (!isGone(error)) findings.open.push(`${folder}: ${messageOf(error)}`);
    return [];
  }
}

function lstatOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function isOpen(stats: Stats | undefined): boolean {
  return stats !== undefined && !stats.isSymbolicLink() && (stats.mode & OTHERS) !== 0;
}

function modeOf(stats: Stats | undefined): string {
  return ((stats?.mode ?? 0) & 0o7777).toString(8).padStart(4, '0');
}

function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ELOOP');
}
