import type { RejectedItem } from '../../ingestion/batch.ts';
import { CALLS } from './call.ts';

/** Our fields, as callers know them. */
const NAMES: Readonly<Record<string, string>> = {
  message_id: 'messageId',
  user_id: 'userId',
  anonymous_id: 'anonymousId',
  group_id: 'groupId',
};

const SNAKE = new RegExp(Object.keys(NAMES).join('|'), 'g');

/** A refusal of an event in the words of who sent it. */
export function inWordsOfCalls({ index, error, details }: RejectedItem): RejectedItem {
  return {
    index,
    error,
    details: details.map(({ path, message }) => ({
      path: inCamelCase(path),
      message: path === '/type' ? `must be one of ${Object.keys(CALLS).join(', ')}` : inCamelCase(message),
    })),
  };
}

const inCamelCase = (text: string) => text.replaceAll(SNAKE, (name) => NAMES[name] ?? name);
