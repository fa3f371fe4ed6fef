import { dirname } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Child } from '../../helpers/child.ts';
import { engines } from '../../helpers/engines.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { isAlive, isGone } from '../../helpers/processes.ts';
import { describeMachine, enginesOf, type RunningEngine } from '../index.ts';
import { redisAnswer } from './redis-answer.ts';

describe.skipIf(engines() === undefined)('a Redis of a test', () => {
  const started: RunningEngine[] = [];
  afterEach(async () => {
    for (const engine of started.splice(0)) await engine.stop();
  });
  const start = async (options?: Parameters<typeof redis.start>[0]) => {
    const engine = await redis.start(options);
    started.push(engine);
    return engine;
  };
  const { redis } = ownEngines();

  it('keeps its data over an orderly restart', async () => {
    const engine = await start();
    expect(await redisAnswer(engine.url, 'SET kept yes')).toBe('+OK');
    const { pid } = engine;
    await engine.restart();
    expect(isAlive(pid)).toBe(false);
    expect(await redisAnswer(engine.url, 'GET kept')).toBe('yes');
  });

  it('does not answer while it is paused, and continues afterwards', async () => {
    const engine = await start();
    await engine.pause();
    await expect(redisAnswer(engine.url, 'PING', 200)).rejects.toThrow(/no answer/);
    await engine.resume();
    expect(await redisAnswer(engine.url, 'PING')).toBe('+PONG');
  });

  it('copies another one', async () => {
    const primary = await start();
    const replica = await start({ replicaOf: primary.url });
    expect(await redisAnswer(replica.url, 'SET here no')).toMatch(/^-READONLY/);
    expect(await redisAnswer(primary.url, 'SET there yes')).toBe('+OK');
    await expect.poll(() => redisAnswer(replica.url, 'GET there'), { timeout: 10_000 }).toBe('yes');
  });

  it('is stopped while it is paused', async () => {
    const engine = await start();
    const { pid, logFile } = engine;
    await engine.pause();
    await engine.stop();
    expect(isAlive(pid)).toBe(false);
    expect(await isGone(dirname(logFile))).toBe(true);
  });

  it('does not outlive its parent process when that is killed', async () => {
    const child = new Child(new URL('redis-owner.ts', import.meta.url), []);
    const [owned] = (await child.wrote(1)) as { pid: number; folder: string }[];
    if (owned === undefined) throw new Error('it told nothing');
    expect(isAlive(owned.pid)).toBe(true);
    await child.kill();
    expect(await isGone(owned.pid)).toBe(true);
    expect(await isGone(owned.folder)).toBe(true);
  });

  it('states which package to install where Redis is missing', async () => {
    const bare = enginesOf(describeMachine({ HOME: '/nowhere', PATH: '/nowhere' }));
    await expect(bare.redis.start()).rejects.toMatchObject({
      code: 'engine_missing',
      message: expect.stringContaining('redis-server'),
    });
  });
});
