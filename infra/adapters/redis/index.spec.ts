import { InvalidInput } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { nodesOf, parseRedisAddress, redisAddress } from './index.ts';

describe('a Redis address', () => {
  it('has the default port and database unless given', () => {
    expect(parseRedisAddress('redis://cache')).toEqual({
      nodes: [{ host: 'cache', port: 6379 }],
      username: undefined,
      password: undefined,
      tls: false,
      database: 0,
    });
    expect(parseRedisAddress('redis://cache:7000/3')).toMatchObject({ database: 3, nodes: [{ port: 7000 }] });
  });

  it('has credentials, also with escaped characters', () => {
    expect(parseRedisAddress('rediss://me:p%40ss%2Fword@[::1]:6380')).toMatchObject({
      nodes: [{ host: '::1', port: 6380 }],
      username: 'me',
      password: 'p@ss/word',
      tls: true,
    });
    expect(parseRedisAddress('redis://:secret@cache')).toMatchObject({
      username: undefined,
      password: 'secret',
    });
  });

  it('has several nodes of a cluster', () => {
    const address = parseRedisAddress('redis://a:1, redis://b:2,redis://c:3');
    expect(nodesOf(address)).toBe('a:1,b:2,c:3');
  });

  it('has sentinels, with the database of the servers that they watch', () => {
    const url = 'rediss://me:secret@s1/2,rediss://me:secret@s2:7000/2';
    expect(redisAddress({ url, ca: 'PEM', sentinel: { primary: 'tributary' } })).toEqual({
      nodes: [
        { host: 's1', port: 26_379 },
        { host: 's2', port: 7000 },
      ],
      username: 'me',
      password: 'secret',
      tls: true,
      database: 2,
      ca: 'PEM',
      sentinel: { primary: 'tributary' },
    });
  });

  it.each([
    '',
    'cache:6379',
    'http://cache',
    'redis://',
    'redis://cache/x',
    'redis://a/1,redis://b/1',
    'redis://a,rediss://b',
    'redis://u:hush@a,redis://u:hash@b',
  ])('refuses %j without the credentials in the message', (text) => {
    expect(() => parseRedisAddress(text)).toThrow(InvalidInput);
    expect(() => parseRedisAddress(text)).not.toThrow(/hush|hash/);
  });
});
