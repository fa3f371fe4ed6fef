import { expect, it } from 'vitest';
import { redisArguments } from './index.ts';

it('a replica names its primary as two words', () => {
  const args = redisArguments('/data', 7001, { replicaOf: 'redis://127.0.0.1:7000' });
  expect(args.slice(args.indexOf('--replicaof'))).toEqual(['--replicaof', '127.0.0.1', '7000']);
});

it('evicts nothing unless configured to', () => {
  const policy = (args: readonly string[]) => args[args.indexOf('--maxmemory-policy') + 1];
  expect(policy(redisArguments('/data', 7001, {}))).toBe('noeviction');
  expect(policy(redisArguments('/data', 7001, { maxmemoryPolicy: 'allkeys-lru' }))).toBe('allkeys-lru');
});
