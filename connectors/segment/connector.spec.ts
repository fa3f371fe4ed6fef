import { describe, expect, it } from 'vitest';
import { classifyActions } from './connector.ts';

const NOTHING_SEEN = { failure: undefined, status: undefined, retryAfter: undefined };

describe('the failure of an action', () => {
  it('is tried again where the pack waited no longer, although the call had time left', () => {
    const error = { name: 'TimeoutError', message: 'timed out' };
    const verdict = classifyActions([{ action: 'track', error }], NOTHING_SEEN, [], 0);
    expect(verdict).toEqual({ outcome: 'retry', reason: 'timed out' });
  });

  it('is dead where the action itself failed, as it would again', () => {
    const error = { name: 'PayloadValidationError', message: 'no email' };
    const verdict = classifyActions([{ action: 'track', error }], NOTHING_SEEN, [], 0);
    expect(verdict).toMatchObject({ outcome: 'dead', reason: 'track failed (PayloadValidationError)' });
  });
});
