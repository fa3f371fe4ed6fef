import { HEADER, type LogEntry, type OutputRecord, type Source, TOPIC } from '@tributary/core';

/** Why a mail is tried again: the server did not take it, or there is none. In the `outcome` header. */
export type Retry = 'later' | 'waiting';

/** The mail once more, unchanged. */
export function again({ key, value, headers }: LogEntry, why: Retry): OutputRecord {
  return { topic: TOPIC.mailRetry, key, value, headers: { ...headers, [HEADER.outcome]: why } };
}

/** Mails to be tried again: after `retryMs`, or at once when they waited for the mail server that there is now. */
export function mailRetries(retryMs: number, hasMailer: boolean): Source {
  return {
    topic: TOPIC.mailRetry,
    dueAt: ({ timestamp, headers }) =>
      hasMailer && headers[HEADER.outcome] === 'waiting' ? timestamp : timestamp + retryMs,
  };
}
