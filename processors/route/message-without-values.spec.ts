import type { CanonicalEvent } from '@tributary/core';
import { expect, it } from 'vitest';
import { messageWithoutValues } from './message-without-values.ts';

const EVENT: CanonicalEvent = {
  message_id: 'm1',
  type: 'identify',
  user_id: 'user-4711',
  traits: { email: 'ada@example.com', cards: [{ number: 4_111_111_111_111_111 }], plan: 'pro' },
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:01.000Z',
  environment: 'production',
  workspace_id: 'w1',
};

it.each([
  ['no such user user-4711', 'no such user ***'],
  ['bad address ada@example.com!', 'bad address ***!'],
  ['card 4111111111111111 of ada@example.com', 'card *** of ***'],
  [
    `Unexpected token 'a', "ada@examp"... is not valid JSON`,
    `Unexpected token 'a', "***"... is not valid JSON`,
  ],
  [
    "Cannot read properties of undefined (reading 'total')",
    "Cannot read properties of undefined (reading 'total')",
  ],
  ['identify is not taken in production', 'identify is not taken in production'],
  ['the plan pro is over', 'the plan pro is over'],
  ['', ''],
])('%j becomes %j', (message, shown) => {
  expect(messageWithoutValues(message, EVENT)).toBe(shown);
});
