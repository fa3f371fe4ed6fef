import { expect, it } from 'vitest';
import { topicFor, topicsOf } from './keys.ts';

it('the topic of a write key is that of its environment, or one that the operator declared', () => {
  expect(topicFor('production', undefined, [])).toBe('events.production');
  expect(topicFor('development', 'events.development', [])).toBe('events.development');
  expect(topicFor('production', 'events.big-shop', ['events.big-shop'])).toBe('events.big-shop');
});

it.each(['events.development', 'catalog', 'events.accepted', ''])(
  'the topic of a production key cannot be %j',
  (topic) => {
    expect(() => topicFor('production', topic, ['events.big-shop'])).toThrow('invalid request');
  },
);

it('the dedicated topic of another tenant is refused like a missing one, and is not listed', () => {
  const dedicatedTopics = ['for-all', 'for-org', 'for-shop'];
  const topicTenants = new Map([
    ['for-org', new Set(['o1'])],
    ['for-shop', new Set(['w2', 'w3'])],
  ]);
  const topics = (id: string, organization_id: string) =>
    topicsOf({ id, organization_id }, { dedicatedTopics, topicTenants });
  expect(topics('w1', 'o1')).toEqual(['for-all', 'for-org']);
  expect(topics('w2', 'o2')).toEqual(['for-all', 'for-shop']);
  expect(topics('w4', 'o2')).toEqual(['for-all']);
  const refusal = (topic: string) => {
    try {
      return topicFor('production', topic, topics('w4', 'o2'));
    } catch (error) {
      return JSON.stringify(error);
    }
  };
  expect(refusal('for-shop')).toEqual(refusal('for-nobody'));
  expect(refusal('for-shop')).not.toContain('for-org');
});
