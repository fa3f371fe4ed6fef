import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type StoreMark, TributaryError } from '@tributary/core';
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

/**
 * The mark of a store that `tributary move` fills: no process of any installation may use it. `state`: of the data folder,
 * as the stores may be copied in it already.
 */
export function unfinishedMark(installation: string, state: string): string {
  return `${installation}${UNFINISHED} of the state ${state})`;
}

export function isUnfinishedMark(mark: string, installation: string): boolean {
  return mark.startsWith(`${installation}${UNFINISHED}`);
}

const UNFINISHED = ' (unfinished move';

/** `tributary move` has not finished filling the engines. */
export class UnfinishedMove extends TributaryError {
  readonly code = 'unfinished_move';
  readonly retryable = false;
}

/** `UnfinishedMove` if a store that answers is being filled. Called before anything is written to the catalog. */
export async function refuseUnfinishedMove(marks: readonly StoreMark[]): Promise<void> {
  for (const mark of marks) {
    const found = await mark.read().catch((error: unknown) => {
      // An engine that does not answer is checked later, by its mark.
      if (error instanceof TributaryError && error.retryable) return undefined;
      throw error;
    });
    if (found?.includes(UNFINISHED))
      throw new UnfinishedMove(
        `${mark.store} is being filled by \`tributary move\`, which did not finish: run it again until it says that the move is done, then start the processes`,
      );
  }
}
