import type { Delivery } from '@tributary/core';

/** A delivery before its first attempt. */
export function sampleDelivery(id: string): Delivery {
  return {
    id,
    workspace_id: 'w1',
    environment: 'production',
    destination_id: 'd1',
    rule_id: 'r1',
    message_id: 'm1',
    index: 0,
    created_at: '2024-02-29T12:00:00.000Z',
    attempts: [],
    redrives: 0,
    event: {
      message_id: 'm1',
      type: 'track',
      timestamp: '2024-02-29T12:00:00.000Z',
      received_at: '2024-02-29T12:00:00.000Z',
      environment: 'production',
      workspace_id: 'w1',
    },
  };
}
