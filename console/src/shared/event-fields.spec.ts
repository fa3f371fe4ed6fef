import { expect, it } from 'vitest';
import { producerEventOf } from './event-fields.ts';

it('leaves out fields that the server added', () => {
  const sent = { type: 'track', event: 'Order', user_id: 'ada', properties: { total: 1 }, message_id: 'm' };
  const added = {
    received_at: '2026-01-01T00:00:00Z',
    environment: 'production',
    workspace_id: 'w',
    source_id: 's',
  };
  expect(producerEventOf({ ...sent, ...added })).toEqual(sent);
});
