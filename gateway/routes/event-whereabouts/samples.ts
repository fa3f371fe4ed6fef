import type { CanonicalEvent } from '@tributary/core';

/** For specs: an event, and when it was. */
export const AT = '2026-01-01T00:00:00.000Z';
export const EVENT: CanonicalEvent = {
  message_id: 'm',
  type: 'track',
  timestamp: AT,
  received_at: AT,
  environment: 'production',
  workspace_id: 'w',
};
