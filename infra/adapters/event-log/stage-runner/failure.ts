import { TributaryError } from '@tributary/core';

/** What a throw of a stage asks for. */
export type Failure =
  /** An engine does not answer: pause the partition and do the same again, for as long as it takes. */
  | 'repeat'
  /** Read again from the offset the error names. */
  | 'rewind'
  /** Read again from the committed position. */
  | 'restart'
  /** The stage cannot take an entry: find which one. */
  | 'throw';

/** `Overloaded` is treated as `Unavailable`: an engine with no room is no reason to give an entry up. */
export function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof TributaryError)) return 'throw';
  switch (thrown.code) {
    case 'unavailable':
    case 'overloaded':
      return 'repeat';
    case 'rewind':
      return 'rewind';
    case 'fenced':
      return 'restart';
    default:
      return 'throw';
  }
}

/** Someone newer owns the partition: this owner can never commit again. */
export class PartitionLost extends Error {
  override readonly name = 'PartitionLost';
}
