/** Of the time that the log keeps a mail, how much it may wait; the rest is for the processors to be away. */
const SHARE = 3 / 4;

/** The age at which a mail that cannot be sent is given up, ms: ahead of the log, which would drop it and say nothing. */
export function mailExpiryMs(retentionMs: number): number {
  return retentionMs * SHARE;
}
