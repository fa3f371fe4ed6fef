/**
 * Every error that leaves a port has a stable `code` and says whether the same call may succeed later.
 * Callers decide on `code` and `retryable`, never on a message.
 */
export abstract class TributaryError extends Error {
  abstract readonly code: string;
  /** True when repeating the very same call later may succeed. */
  abstract readonly retryable: boolean;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An engine (log, store, sandbox) does not answer now. Thrown by any port; the caller waits and repeats. */
export class Unavailable extends TributaryError {
  readonly code = 'unavailable';
  readonly retryable = true;
}

/** More is waiting, to be made durable or for its turn, than the bound allows. Nothing of this call was taken. */
export class Overloaded extends TributaryError {
  readonly code = 'overloaded';
  readonly retryable = true;
}

/** Someone newer owns what this caller tried to commit. The caller must start again from committed state. */
export class Fenced extends TributaryError {
  readonly code = 'fenced';
  readonly retryable = true;
}

/** A stage found that its effects are behind the batch it was given: deliver again from `offset`. */
export class Rewind extends TributaryError {
  readonly code = 'rewind';
  readonly retryable = true;
  readonly offset: number;

  constructor(offset: number) {
    super(`rewind to offset ${offset}`);
    this.offset = offset;
  }
}

/** The caller handed over something that can never be taken; repeating is useless. */
export class InvalidInput extends TributaryError {
  readonly code = 'invalid_input';
  readonly retryable = false;
}

/** The engine takes nothing of this size, though the port does: its operator set a lower bound. Others are unharmed. */
export class TooLarge extends TributaryError {
  readonly code = 'too_large';
  readonly retryable = false;
}

/** The message of anything thrown, also of what is not an `Error`; never throws itself. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  try {
    return String(thrown);
  } catch {
    return 'unknown error';
  }
}
