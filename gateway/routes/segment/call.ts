import type { EventType } from '@tributary/core';

/** What an SDK sends as `type`, and the event type it becomes. */
export const CALLS = {
  track: 'track',
  identify: 'identify',
  page: 'page',
  screen: 'page',
  group: 'group',
  alias: 'identify',
} as const satisfies Record<string, EventType>;

export type Call = keyof typeof CALLS;

export function isCall(text: unknown): text is Call {
  return typeof text === 'string' && Object.hasOwn(CALLS, text);
}

/** Fields of any call that have a place in our event. */
export const COMMON_PLACES = ['type', 'messageId', 'userId', 'anonymousId', 'timestamp', 'context'];

/** Those that have one by the type of the call. */
export const PLACES: Readonly<Record<Call, readonly string[]>> = {
  track: ['event', 'properties'],
  identify: ['traits'],
  page: ['name', 'properties'],
  screen: ['name', 'properties'],
  group: ['groupId', 'traits'],
  alias: ['previousId', 'traits'],
};

/** Credentials are no part of an event. */
export const DROPPED = ['writeKey'];
