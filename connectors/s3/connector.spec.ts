import type { CanonicalEvent } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { classifyS3Failure, DEFAULT_PATH, pathFault, pathOf } from './connector.ts';

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

const event: CanonicalEvent = {
  message_id: 'm',
  type: 'track',
  event: 'Order Placed',
  user_id: 'u',
  timestamp: '2020-01-01T00:00:00.000Z',
  received_at: '2027-02-03T04:59:59.999Z',
  environment: 'development',
  workspace_id: 'w',
};

describe('the path of an object', () => {
  it.each([
    [DEFAULT_PATH, '2027/02/03/04'],
    ['dt={date}/hour={hour}', 'dt=2027-02-03/hour=04'],
    ['dt={date}/event={event}', 'dt=2027-02-03/event=Order%20Placed'],
    ['{environment}.{type}/all', 'development.track/all'],
  ])('was the hour of the oldest delivery: %s', (path, expected) => {
    expect(pathFault(path)).toBeUndefined();
    expect(pathOf(path, event)).toBe(expected);
  });

  it.each([
    ['../up/a b', '..%2Fup%2Fa%20b', '%2E.%2Fup%2Fa%20b'],
    ['..', '%2E.', '%2E.'],
    ['', 'track', 'track'],
    ['\ud800', '%EF%BF%BD', '%EF%BF%BD'],
  ])('has one name for the event %j', (name, _, expected) => {
    expect(pathOf('{event}', { ...event, event: name })).toBe(expected);
  });

  it('has the type of an event without a name, and a long name in part', () => {
    expect(pathOf('e={event}', { ...event, type: 'identify' })).toBe('e=identify');
    const long = pathOf('{event}', { ...event, event: 'é'.repeat(300) });
    expect(long.length).toBeLessThanOrEqual(200);
    expect(decodeURIComponent(long)).toMatch(/^é+$/);
  });

  it.each(['{dt}', '{hour', 'a//b', '/a', 'a/', '..', 'a/../b', 'a b', '{constructor}', ''])(
    'is refused as no template: %j',
    (path) => expect(pathFault(path)).toBeDefined(),
  );
});
