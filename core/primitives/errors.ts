/**
 * Every error of a port has a stable `code` and states whether the same call may succeed later. Callers decide by
 * `code` and `retryable`, never by the message.
 */
export abstract class TributaryError extends Error {
  abstract readonly code: string;
  /** True when repeating the same call later may succeed. */
  abstract readonly retryable: boolean;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An engine (log, store, sandbox) does not answer. Any port may throw it; the caller waits and repeats the call. */
export class Unavailable extends TributaryError {
  readonly code = 'unavailable';
  readonly retryable = true;
}

/** A queue is at its bound. Nothing of this call was accepted. */
export class Overloaded extends TributaryError {
  readonly code = 'overloaded';
  readonly retryable = true;
}

/**
 * A newer owner exists for what this caller tried to commit. The caller must start again from the committed state.
 */
export class Fenced extends TributaryError {
  readonly code = 'fenced';
  readonly retryable = true;
}

/** The effects of a stage are behind the batch that it got: read the partition again from `offset`. */
export class Rewind extends TributaryError {
  readonly code = 'rewind';
  readonly retryable = true;
  readonly offset: number;

  constructor(offset: number) {
    super(`rewind to offset ${offset}`);
    this.offset = offset;
  }
}

/** The input can never be accepted; repeating the call is useless. */
export class InvalidInput extends TributaryError {
  readonly code = 'invalid_input';
  readonly retryable = false;
}

/**
 * The engine does not accept this size, although the port does: its operator set a lower bound. Other calls are not
 * affected.
 */
export class TooLarge extends TributaryError {
  readonly code = 'too_large';
  readonly retryable = false;
}

/** The message of any thrown value; never throws. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  try {
    return String(thrown);
  } catch {
    return 'unknown error';
  }
}

/** Whether it is an error of Node with this code, e.g. `ENOENT`. */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** The result of the work; `Unavailable` with the message where it takes longer. The work goes on. */
export function withTimeout<T>(work: Promise<T>, timeoutMs: number, message: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Unavailable(message)), timeoutMs);
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
