import { expect, test } from 'vitest';
import { AddressRefused } from '../failures.ts';
import { classifyKafkaFailure, refusedRecords, settingsFaults } from './connector.ts';

const protocol = (type: string) => Object.assign(new Error(type), { name: 'KafkaJSProtocolError', type });
const wrapped = (cause: Error) =>
  Object.assign(new Error(cause.message, { cause }), { name: 'KafkaJSNumberOfRetriesExceeded' });

test.each([
  ['TOPIC_AUTHORIZATION_FAILED', 'permission denied'],
  ['SASL_AUTHENTICATION_FAILED', 'not authenticated'],
  ['INVALID_TOPIC_EXCEPTION', 'the topic is not valid'],
])('%s: dead-lettered, however it is wrapped', (type, reason) => {
  for (const error of [protocol(type), wrapped(protocol(type))]) {
    expect(classifyKafkaFailure(error, undefined)).toEqual({ outcome: 'dead', reason });
  }
});

test('a leader that moved is worth another attempt at once, too few replicas are not', () => {
  const moved = classifyKafkaFailure(protocol('NOT_LEADER_FOR_PARTITION'), undefined);
  expect(moved).toMatchObject({ outcome: 'retry', reset: true });
  const few = classifyKafkaFailure(protocol('NOT_ENOUGH_REPLICAS'), undefined);
  expect(few).toEqual({ outcome: 'retry', reason: 'the broker answered NOT_ENOUGH_REPLICAS' });
});

test('a record that is too large may be one of many', () => {
  expect(refusedRecords(wrapped(protocol('MESSAGE_TOO_LARGE')))).toEqual({
    result: { outcome: 'dead', reason: 'the record is too large' },
    mayBeSplit: true,
  });
  expect(refusedRecords(protocol('NOT_LEADER_FOR_PARTITION'))).toBeUndefined();
});

test.each(['UNKNOWN', 'KAFKAJS_UNKNOWN_ERROR_CODE'])('a record may be the fault of %s', (type) => {
  expect(refusedRecords(wrapped(protocol(type)))).toEqual({
    result: { outcome: 'retry', reason: `the broker answered ${type}` },
    mayBeSplit: true,
  });
});

test('the state of the connection takes precedence over the wording of the driver', () => {
  const connection = Object.assign(new Error('Connection error: x'), { name: 'KafkaJSConnectionError' });
  expect(classifyKafkaFailure(connection, undefined)).toMatchObject({ outcome: 'retry', reset: true });
  expect(classifyKafkaFailure(wrapped(connection), new AddressRefused('x'))).toMatchObject({
    outcome: 'dead',
  });
  const sasl = Object.assign(new Error('no'), { name: 'KafkaJSSASLAuthenticationError' });
  expect(classifyKafkaFailure(sasl, undefined)).toEqual({ outcome: 'dead', reason: 'not authenticated' });
  expect(classifyKafkaFailure(new TypeError('our mistake'), undefined)).toBeUndefined();
});

test.each([
  ['SASL SCRAM SHA512 authentication failed: Closed connection', 'connection closed before an answer'],
  [
    'SASL PLAIN authentication failed: Connection error: read ECONNRESET',
    'connection closed before an answer',
  ],
  ['SASL PLAIN authentication failed: Request SaslAuthenticate(key: 36) timed out', 'timed out'],
])('an authentication that was broken off is tried again: %s', (message, reason) => {
  const sasl = Object.assign(new Error(message), { name: 'KafkaJSSASLAuthenticationError' });
  expect(classifyKafkaFailure(wrapped(sasl), undefined)).toMatchObject({ outcome: 'retry', reason });
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  expect(classifyKafkaFailure(sasl, reset)).toMatchObject({ outcome: 'retry' });
});

test('a port is one, and user and password come together', () => {
  const paths = (settings: Parameters<typeof settingsFaults>[0]) =>
    settingsFaults(settings).map(({ path }) => path);
  expect(paths({ brokers: ['a:9092', 'b:0', 'c:70000'] })).toEqual(['/brokers/1', '/brokers/2']);
  expect(paths({ brokers: ['a:9092'], username: 'u' })).toEqual(['/password']);
  expect(paths({ brokers: ['a:9092'], password: 'p' })).toEqual(['/username']);
});
