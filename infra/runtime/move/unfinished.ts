import { type StoreMark, TributaryError } from '@tributary/core';

/** The mark of a store that `tributary move` fills: no process of any installation may use it. */
export function unfinishedMark(installation: string): string {
  return `${installation}${SUFFIX}`;
}

const SUFFIX = ' (unfinished move)';

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
    if (found?.endsWith(SUFFIX))
      throw new UnfinishedMove(
        `${mark.store} is being filled by \`tributary move\`, which did not finish: run it again until it says that the move is done, then start the processes`,
      );
  }
}
