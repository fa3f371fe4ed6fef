import { TributaryError } from '@tributary/core';

/** A call took longer than it may. What it did at the destination is unknown. */
export class TimedOut extends TributaryError {
  readonly code = 'timed_out';
  readonly retryable = true;
}

/** Whoever asked does not wait any more: the partition is lost or the process leaves. */
export class Stopped extends TributaryError {
  readonly code = 'stopped';
  readonly retryable = true;
}

/** The connector was closed before the call began. */
export class Closed extends TributaryError {
  readonly code = 'closed';
  readonly retryable = true;
}

/** More came back on a connection than any honest answer is. */
export class TooMuchAnswered extends TributaryError {
  readonly code = 'too_much_answered';
  readonly retryable = true;
}

/** What came on a connection is nothing that the protocol allows for an answer to what was asked. */
export class AnswerRefused extends TributaryError {
  readonly code = 'answer_refused';
  readonly retryable = true;
}

/** A server asks for the password in clear on a connection that is not encrypted. */
export class PasswordInClear extends TributaryError {
  readonly code = 'password_in_clear';
  readonly retryable = false;
}

/** The address a name stands for, or a literal one, is not to be reached from here. */
export class AddressRefused extends TributaryError {
  readonly code = 'address_refused';
  readonly retryable = false;
}

/** A folder leads, or could lead, out of the place it must stay in. */
export class FolderRefused extends TributaryError {
  readonly code = 'folder_refused';
  readonly retryable = false;
}

/** The `code` of a system or library error: an identifier, so it is safe to show; undefined where there is none. */
export function codeOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown) || typeof thrown.code !== 'string') return undefined;
  return /^[A-Za-z0-9_]{1,64}$/.test(thrown.code) ? thrown.code : undefined;
}
