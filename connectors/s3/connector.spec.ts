import { describe, expect, it } from 'vitest';
import { classifyS3Failure } from './connector.ts';

const answered = (name: string, httpStatusCode: number) =>
  Object.assign(new Error('no'), { name, $metadata: { httpStatusCode } });

describe('a put that the service refused', () => {
  it.each([
    ['RequestTimeout', 400],
    ['IncompleteBody', 400],
    ['BadDigest', 400],
    ['RequestTimeTooSkewed', 403],
    ['OperationAborted', 409],
  ])('for what passes is tried again: %s', (name, status) => {
    const reason = `answered ${status} ${name}`;
    expect(classifyS3Failure(answered(name, status), undefined, 0)).toEqual({
      outcome: 'retry',
      status,
      reason,
    });
  });

  it.each([
    ['SlowDown', 503],
    ['RequestThrottled', 400],
    ['TooManyRequestsException', 403],
    ['Error', 429],
  ])('for its rate asks for fewer: %s (%d)', (name, status) => {
    expect(classifyS3Failure(answered(name, status), undefined, 0)).toMatchObject({
      outcome: 'retry',
      throttled: true,
      status,
    });
  });

  it.each([
    ['InternalError', 500],
    ['ServiceUnavailable', 503],
  ])('as the service failed is no matter of the rate: %s', (name, status) => {
    expect(classifyS3Failure(answered(name, status), undefined, 0)).not.toHaveProperty('throttled');
  });

  it.each([
    ['AccessDenied', 403],
    ['NoSuchBucket', 404],
    ['InvalidArgument', 400],
  ])('permanently is dead-lettered: %s', (name, status) => {
    expect(classifyS3Failure(answered(name, status), undefined, 0)).toMatchObject({
      outcome: 'dead',
      status,
    });
  });
});
