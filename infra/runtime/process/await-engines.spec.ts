import { InvalidInput, NO_LOGGER, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { NotStarted, startDeadline, untilAvailable } from './await-engines.ts';

describe('waiting for an engine', () => {
  it('tries again until it answers, and logs what it waits for', async () => {
    const logged: unknown[] = [];
    const logger = {
      ...NO_LOGGER,
      warn: (fields: object, message: string) => logged.push([fields, message]),
    };
    let attempts = 0;
    const answer = await untilAvailable('opening it', startDeadline(10_000, logger), async () => {
      attempts++;
      if (attempts < 3) throw new Unavailable('nobody is there');
      return 'here';
    });
    expect(answer).toBe('here');
    expect(logged).toEqual(
      [1, 2].map(() => [{ error: 'nobody is there' }, 'opening it: not possible yet; trying again']),
    );
  });

  it('gives up in time, in a sentence', async () => {
    const never = async () => {
      throw new Unavailable('nobody is there');
    };
    const waiting = untilAvailable('opening it', startDeadline(150, NO_LOGGER), never);
    await expect(waiting).rejects.toThrow(NotStarted);
    await expect(waiting).rejects.toThrow(
      'opening it: not possible within TRIBUTARY_START_TIMEOUT (0.15 s): nobody is there',
    );
  });

  it('does not try again what no repetition heals', async () => {
    let attempts = 0;
    const waiting = untilAvailable('opening it', startDeadline(10_000, NO_LOGGER), async () => {
      attempts++;
      throw new InvalidInput('wrong');
    });
    await expect(waiting).rejects.toThrow('wrong');
    expect(attempts).toBe(1);
  });
});
