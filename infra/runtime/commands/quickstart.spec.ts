import { NO_LOGGER, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openInProcessLiveTail } from '../../adapters/live-tail/in-process/index.ts';
import { describeFirstEvent, followFirstEvent } from './quickstart.ts';

const WORKSPACE = '0190aaaa-0000-7000-8000-000000000001';
const ARRIVED = {
  type: 'track',
  event: 'Signed Up',
  user_id: 'ada',
  message_id: 'm-1',
  environment: 'production',
  outcome: 'accepted',
} as const;

describe('the first event of a workspace', () => {
  let tail: ReturnType<typeof openInProcessLiveTail>;
  let offset = 0;
  beforeEach(() => {
    tail = openInProcessLiveTail({ logger: NO_LOGGER });
  });
  afterEach(() => tail.close());

  const append = (message_id: string, workspaceId = WORKSPACE) =>
    tail.append({
      topic: 'events.accepted',
      partition: 0,
      events: [
        {
          workspaceId,
          environment: 'development',
          offset: offset++,
          data: JSON.stringify({ ...ARRIVED, message_id }),
        },
      ],
    });

  it('is the first one from then on, of that workspace', async () => {
    await append('before');
    const { event } = await followFirstEvent(tail, WORKSPACE, NO_LOGGER);
    await append('elsewhere', '0190aaaa-0000-7000-8000-000000000002');
    await append('first');
    await append('second');
    expect(await event).toMatchObject({ message_id: 'first', environment: 'development' });
  });

  it('stops no start where the live tail does not answer', async () => {
    const follow = () => Promise.reject(new Unavailable('redis does not answer'));
    const warned: string[] = [];
    const logger = { ...NO_LOGGER, warn: (_: object, message: string) => warned.push(message) };
    await followFirstEvent({ follow }, WORKSPACE, logger);
    expect(warned).toEqual(['the first event will not be announced']);
  });
});

describe('its line', () => {
  const lineOf = (event: object) => describeFirstEvent({ ...ARRIVED, ...event }, (id) => `<${id}>`);

  it.each([
    [{}, 'track "Signed Up" from ada, accepted. See <m-1>'],
    [{ type: 'identify', event: null }, 'identify from ada, accepted. See <m-1>'],
    [{ user_id: null, anonymous_id: 'a1' }, 'track "Signed Up" from a1, accepted. See <m-1>'],
    [{ environment: 'development' }, 'track "Signed Up" from ada (development), accepted. See <m-1>'],
    [{ outcome: 'rejected' }, 'track "Signed Up" from ada, rejected. See <m-1>'],
  ])('states the fault and the place to look: %j', (event, line) => {
    expect(lineOf(event)).toBe(`The first event is here: ${line}`);
  });

  it('is one line, which no producer makes a terminal act on', () => {
    const line = lineOf({ event: `\u001b[2J\n${'é'.repeat(100)}\u009b1m`, user_id: '\u202eada' });
    expect(line).not.toMatch(/\p{C}/u);
    expect(line).toContain(`"?[2J?${'é'.repeat(55)}..." from ?ada`);
  });
});
