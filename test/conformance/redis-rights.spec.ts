import { randomBytes } from 'node:crypto';
import { InvalidInput, NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisDeduplicator, openRedisLiveTail } from '@tributary/infra';
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { engines, freshPrefix } from '../helpers/engines.ts';
import { command } from '../helpers/redis.ts';
import { dedupeClaim } from './deduplicator/suite/harness.ts';
import { batch, events, WORKSPACE_ID } from './live-tail/suite/harness.ts';

/**
 * All tests with engines run with the rights of docs/operations/rights.md only, so they show that these are sufficient.
 */
describe.skipIf(engines() === undefined)('a Redis that grants rights one by one', () => {
  async function userWith(...rights: readonly string[]): Promise<string> {
    const name = `t${randomBytes(4).toString('hex')}`;
    const { redisUrl = '' } = engines() ?? {};
    await command(redisUrl, 'ACL', 'SETUSER', name, 'on', '>secret', ...rights);
    onTestFinished(async () => void (await command(redisUrl, 'ACL', 'DELUSER', name)));
    const url = new URL(redisUrl);
    url.username = name;
    url.password = 'secret';
    return url.href;
  }

  it('grants the documented ones, and no others', async () => {
    const client = new Redis(engines()?.redisUrl ?? '');
    onTestFinished(() => client.disconnect());
    expect(await client.get(freshPrefix())).toBeNull();
    await expect(client.get('of others')).rejects.toThrow('NOPERM');
    await expect(client.publish('of others', '')).rejects.toThrow('NOPERM');
    await expect(client.flushall()).rejects.toThrow('NOPERM');
    await expect(client.keys('*')).rejects.toThrow('NOPERM');
    await expect(client.config('GET', '*')).rejects.toThrow('NOPERM');
    await expect(client.acl('LIST')).rejects.toThrow('NOPERM');
  });

  it('that hides its configuration is not used: it might evict records that must be kept', async () => {
    const url = await userWith('~*', '&*', '+@all', '-info');
    const opening = openRedisDeduplicator({ url, prefix: freshPrefix(), windowMs: 1_000, logger: NO_LOGGER });
    await expect(opening).rejects.toThrow(InvalidInput);
    await expect(opening).rejects.toThrow(/^Redis: NOPERM .*'info'/);
  });

  it.each([
    ['keys', ['~others*', '&*', '+@all'], 'keys'],
    ['scripts', ['~*', '&*', '+@all', '-@scripting'], 'evalsha'],
  ])('names the missing one: %s', async (_what, rights, named) => {
    const url = await userWith(...rights);
    const deduplicator = await openRedisDeduplicator({
      url,
      prefix: freshPrefix(),
      windowMs: 1_000,
      logger: NO_LOGGER,
    });
    onTestFinished(() => deduplicator.close());
    const claiming = deduplicator.claim([dedupeClaim('m', 1)]);
    await expect(claiming).rejects.toThrow(Unavailable);
    await expect(claiming).rejects.toThrow(new RegExp(`NOPERM .*${named}`));
  });

  it('names the missing one: channels', async () => {
    const said: string[] = [];
    const say = (fields: object, message: string) => void said.push(`${message} ${JSON.stringify(fields)}`);
    const tail = await openRedisLiveTail({
      url: await userWith('~*', '&others', '+@all'),
      prefix: freshPrefix(),
      logger: { debug() {}, info: say, warn: say, error: say },
    });
    onTestFinished(() => tail.close());
    await expect(tail.append(batch(events(0, 1)))).rejects.toThrow("can't publish to the channel");
    await tail.follow(WORKSPACE_ID, { wake() {} });
    await eventually(
      () => said,
      (lines) => lines.some((line) => /Redis subscriptions failed.*NOPERM .*channels/.test(line)),
    );
  });
});
