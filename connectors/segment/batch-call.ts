import type { ActionOutcome, EventOutcome } from './messages.ts';
import type { BatchCall, PackStatus } from './pack.ts';

/** Characters of a message that are kept. */
const MAX_MESSAGE = 500;

/** A call of an action with some events of a batch. */
export interface BatchAttempt<Token> {
  readonly performed: BatchCall['performed'];
  readonly error?: ActionOutcome['error'];
  /** For each of the events. */
  readonly multistatus: readonly PackStatus[];
  readonly token?: Token;
  /** The last answer refuses the token in its body. */
  readonly isTokenRefused: boolean;
}

/**
 * Runs a batch of `count` events: again without those that the action leaves out, as it may count by their places, and again
 * with those alone whose token was refused.
 */
export async function runBatch<Token>(
  count: number,
  attempt: (places: readonly number[]) => Promise<BatchAttempt<Token>>,
  renews: (token: Token) => boolean,
): Promise<Pick<ActionOutcome, 'each' | 'error'>> {
  const each: (EventOutcome | null)[] = Array.from({ length: count }, () => null);
  let isRenewed = false;
  let failed: ActionOutcome['error'];
  const calls: (readonly number[])[] = [[...each.keys()]];
  // Calls are appended during the iteration.
  for (const places of calls) {
    const { performed, error, multistatus, token, isTokenRefused } = await attempt(places);
    const placesOf = (test: (status: PackStatus | undefined) => boolean) =>
      places.filter((_, at) => test(multistatus[at]));
    if (error !== undefined) failed = error;
    else if (performed === 'apart')
      calls.push(
        placesOf(isOk),
        placesOf((status) => !isOk(status)),
      );
    else if (performed === 'not' || performed === 'incomplete') {
      for (const [at, place] of places.entries())
        if (!isOk(multistatus[at])) each[place] = { message: textOf(multistatus[at]) };
      if (performed === 'incomplete') calls.push(placesOf(isOk));
    } else {
      if (performed === 'each')
        for (const [at, place] of places.entries()) each[place] = saidOf(multistatus[at]);
      const refused = placesOf((status) => status?.status === 401 || (isTokenRefused && !isOk(status)));
      if (isRenewed || refused.length === 0 || token === undefined || !renews(token)) continue;
      isRenewed = true;
      calls.push(refused);
    }
  }
  return failed === undefined ? { each } : { each, error: failed };
}

function isOk(status: PackStatus | undefined): boolean {
  return typeof status?.status === 'number' && status.status >= 200 && status.status < 300;
}

function textOf(status: PackStatus | undefined): string {
  return typeof status?.errormessage === 'string' ? status.errormessage.slice(0, MAX_MESSAGE) : '';
}

function saidOf(status: PackStatus | undefined): EventOutcome | null {
  return typeof status?.status === 'number' ? { status: status.status, message: textOf(status) } : null;
}
