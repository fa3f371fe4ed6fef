import { expect, test } from 'vitest';
import { AddressRefused } from '../failures.ts';
import { deliveredKey } from './client.ts';
import { classifyRedisFailure, mayConcernEntries } from './connector.ts';

const reply = (message: string) => Object.assign(new Error(message), { name: 'ReplyError' });

test.each([
  ['NOAUTH Authentication required.', 'not authenticated'],
  ['WRONGPASS invalid username-password pair', 'not authenticated'],
  ["NOPERM User x has no permissions to run the 'eval' command", 'permission denied'],
  ['WRONGTYPE Operation against a key holding the wrong kind of value', 'the key holds no stream'],
  ['MOVED 1234 10.0.0.1:6379', 'the server is part of a cluster'],
  ['ERR Error running script (call to f_1): @user_script:10: WRONGTYPE Operation', 'the key holds no stream'],
  ["ERR unknown command 'EVAL'", 'the server refused the command'],
])('%s: dead-lettered', (message, reason) => {
  expect(classifyRedisFailure(reply(message), undefined)).toEqual({ outcome: 'dead', reason });
});

test.each([
  ["OOM command not allowed when used memory > 'maxmemory'.", 'the server answered OOM'],
  ['LOADING Redis is loading the dataset in memory', 'the server answered LOADING'],
  ["READONLY You can't write against a read only replica.", 'the server answered READONLY'],
  ['upstream failure', 'the server answered an error of its own'],
])('%s: tried again', (message, reason) => {
  expect(classifyRedisFailure(reply(message), undefined)).toEqual({ outcome: 'retry', reason });
});

test.each([
  ['ERR max number of clients reached', 'too many clients'],
  ['ERR max daily request limit exceeded', 'too many requests'],
])('%s: asks for fewer', (message, reason) => {
  const throttled = { outcome: 'retry', throttled: true, reason };
  expect(classifyRedisFailure(reply(message), undefined)).toEqual(throttled);
});

test('an entry may be at fault where the error does not concern the server', () => {
  const blaming = ['ERR max request size exceeded', 'POLICY no such text', 'upstream failure'];
  const not = ['OOM command not allowed', 'NOPERM no', 'ERR max number of clients reached', 'LOADING wait'];
  expect([...blaming, ...not].filter((message) => mayConcernEntries(reply(message)))).toEqual(blaming);
  expect(mayConcernEntries(new Error('ERR no reply'))).toBe(false);
});

test('the state of the connection takes precedence over the wording of the driver', () => {
  const closed = new Error('Connection is closed.');
  expect(classifyRedisFailure(closed, undefined)).toMatchObject({ outcome: 'retry', reset: true });
  expect(classifyRedisFailure(closed, new AddressRefused('x'))).toMatchObject({ outcome: 'dead' });
  expect(classifyRedisFailure(closed, reply('WRONGPASS no'))).toMatchObject({ outcome: 'dead' });
  expect(classifyRedisFailure(new TypeError('our mistake'), undefined)).toBeUndefined();
});

test('the ids delivered lie in the hash slot of the stream', () => {
  expect(deliveredKey('events')).toBe('{events}:delivered');
  expect(deliveredKey('team:{a}:events')).toBe('team:{a}:events:delivered');
});
