import type { CanonicalEvent } from '../event/event.ts';
import type { Violation } from './violation.ts';

/** Value of an entry on `events.rejected`: the event as it was received, and why its contract blocked it. */
export interface RejectedEvent {
  readonly event: CanonicalEvent;
  readonly reason: 'event blocked';
  /** What was recorded of it; at least one is `blocked`. */
  readonly violations: readonly Violation[];
}
