import { TributaryError } from '../errors/errors.ts';

/**
 * The topics there are were laid out otherwise than those declared. Going on would lose records without a word: those
 * of partitions or topics that nobody reads any more. Thrown by `createTopics`, before anything is read or written.
 */
export class LayoutMismatch extends TributaryError {
  readonly code = 'layout_mismatch';
  readonly retryable = false;
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`the event log was laid out otherwise:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}
