/** What is known about asking an issuer for its keys. Times are monotonic, ms; absent = never. */
export interface KeyHistory {
  /** When the keys in use were got. */
  readonly gotAt?: number | undefined;
  /** When asking failed last, if it did after the keys in use were got. */
  readonly failedAt?: number | undefined;
  /** When the issuer was last asked because of a key it had not named. */
  readonly askedForUnknownAt?: number | undefined;
}

/** From this age on keys are asked for again, beside their use: the way new keys come in before they are needed. */
export const REFRESH_AFTER_MS = 5 * 60_000;
/** From this age on they are asked for before their use: the longest a key that was taken back is still taken. */
export const ASK_FIRST_AFTER_MS = 15 * 60_000;
/** After a failure, and between two looks for keys that are not known, the issuer is left alone for this long. */
export const REST_MS = 10_000;
/** Before any keys were got, the issuer is asked again so soon: until then every sign-in fails. */
export const FIRST_REST_MS = 1_000;

/**
 * What to do before a key is looked up. An issuer that is down does not hold up those it signed tokens for before:
 * keys once got stay in use for as long as it does not answer.
 */
export function beforeUse({ gotAt, failedAt }: KeyHistory, now: number): 'use' | 'ask beside' | 'ask first' {
  if (gotAt === undefined) {
    if (failedAt === undefined || !isResting(failedAt, now)) return 'ask first';
    // In the background: a caller that waited for each attempt would wait long for a 503.
    return now - failedAt < FIRST_REST_MS ? 'use' : 'ask beside';
  }
  if (isResting(failedAt, now)) return 'use';
  if (failedAt !== undefined) return 'ask beside';
  const age = now - gotAt;
  if (age < REFRESH_AFTER_MS) return 'use';
  return age < ASK_FIRST_AFTER_MS ? 'ask beside' : 'ask first';
}

/**
 * Whether to ask because a token names a key that is not known: it may be newer than ours. Anybody can name any, so
 * not more often than once in a while, whatever comes in.
 */
export function mayAskForUnknown({ failedAt, askedForUnknownAt }: KeyHistory, now: number): boolean {
  return !isResting(failedAt, now) && !isResting(askedForUnknownAt, now);
}

function isResting(since: number | undefined, now: number): boolean {
  return since !== undefined && now - since < REST_MS;
}
