import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from './lifecycle.ts';

/** Written into a data folder whose installation was moved to a cluster. */
export interface MovedMark {
  readonly installation: string;
  /** When the move was finished, ISO 8601. */
  readonly at: string;
  /** Where it is now, for operators. */
  readonly to: string;
}

/** The installation of the folder runs elsewhere: a process here would be a second one with the same ids. */
export class FolderMoved extends OperatorError {
  constructor(folder: string, { at, to }: MovedMark) {
    super(
      `the installation in ${folder} was moved to ${to} at ${at}: start gateways and processors there. To use the folder here all the same, with what was in it then, remove ${fileOf(folder)}, and never let both run`,
    );
    this.name = 'FolderMoved';
  }
}

/** Undefined for a folder that was not moved. */
export function movedMark(folder: string): MovedMark | undefined {
  const file = fileOf(folder);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as MovedMark) : undefined;
}

export function markAsMoved(folder: string, mark: MovedMark): void {
  const file = fileOf(folder);
  writeFileSync(`${file}.draft`, `${JSON.stringify(mark)}\n`, { mode: 0o600, flush: true });
  renameSync(`${file}.draft`, file);
}

export function refuseMovedFolder(folder: string): void {
  const mark = movedMark(folder);
  if (mark !== undefined) throw new FolderMoved(folder, mark);
}

function fileOf(folder: string): string {
  return join(folder, 'moved.json');
}
