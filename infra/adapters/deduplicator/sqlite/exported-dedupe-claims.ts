import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Position, parsePosition } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';
import { storedWinners } from './dedupe-claim-files.ts';

/** A dedupe claim as the files hold it. */
export interface ExportedDedupeClaim {
  /** `digestOf` the message; with one more byte for the rejected events of it. */
  readonly digest: Uint8Array;
  readonly position: Position;
  /** When this store forgets it, epoch ms. */
  readonly keptUntil: number;
}

/**
 * The dedupe claims of a folder that no process writes to, without those that are expired; of each message the winner first.
 */
export function* exportedDedupeClaims(
  folder: string,
  windowMs: number,
  now: number,
): Generator<ExportedDedupeClaim> {
  const list = join(folder, 'windows.db');
  if (!existsSync(list)) return;
  const windows = openDatabase(list, { readOnly: true });
  try {
    const sources = new Map(
      windows
        .prepare('SELECT id, source FROM sources')
        .all()
        .map(({ id, source }) => [Number(id).toString(36), String(source)]),
    );
    // An older file decides before a newer one.
    const files = windows.prepare('SELECT file, ends FROM windows ORDER BY file').all();
    for (const { file, ends } of files) {
      const keptUntil = Number(ends) + windowMs;
      const path = join(folder, `claims-${Number(file)}.db`);
      if (keptUntil > now && existsSync(path)) yield* dedupeClaimsOf(path, sources, keptUntil);
    }
  } finally {
    windows.close();
  }
}

function* dedupeClaimsOf(
  path: string,
  sources: ReadonlyMap<string, string>,
  keptUntil: number,
): Generator<ExportedDedupeClaim> {
  const claims = openDatabase(path, { readOnly: true });
  try {
    for (const { digest, winner } of storedWinners(claims)) {
      const [source = '', offset = '', index = ''] = winner.split('.');
      const at = `${Number.parseInt(offset, 36)}/${Number.parseInt(index, 36)}`;
      const position = parsePosition(`${sources.get(source)}/${at}`);
      if (position === undefined) throw new Error(`${path} has a dedupe claim in an unknown format`);
      yield { digest, position, keptUntil };
    }
  } finally {
    claims.close();
  }
}
