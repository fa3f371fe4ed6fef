import { expect, it } from 'vitest';
import { topicFor } from './topic.ts';

it('is that of the environment, or one the operator declared', () => {
  expect(topicFor('production', undefined, [])).toBe('events.production');
  expect(topicFor('development', 'events.development', [])).toBe('events.development');
  expect(topicFor('production', 'events.big-shop', ['events.big-shop'])).toBe('events.big-shop');
});

it.each(['events.development', 'catalog', 'events.accepted', ''])(
  'is not %j for production: keys must not write where other things are',
  (topic) => {
    expect(() => topicFor('production', topic, ['events.big-shop'])).toThrow('invalid request');
  },
);
