import { expect, it } from 'vitest';
import { topicFor, topicsOf } from './keys.ts';

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
