import type { Tone } from '../../shared/status-badge.tsx';
import type { EventTrace, TracedDelivery, TracedRule } from './event-calls.ts';

interface Word {
  readonly text: string;
  readonly tone: Tone;
}

export const EVENT_STATUS: Readonly<Record<EventTrace['status'], Word>> = {
  under_way: { text: 'Under way', tone: 'busy' },
  delivered: { text: 'Delivered', tone: 'good' },
  dead: { text: 'Delivery dead', tone: 'bad' },
  discarded: { text: 'Discarded', tone: 'neutral' },
  not_forwarded: { text: 'Not forwarded', tone: 'neutral' },
  rejected: { text: 'Rejected', tone: 'bad' },
  failed: { text: 'Failed', tone: 'bad' },
  unknown: { text: 'Unknown', tone: 'warning' },
};

/** The meaning of the status, in a sentence. */
export const EVENT_STATUS_MEANS: Readonly<Record<EventTrace['status'], string>> = {
  under_way: 'It is still being processed. This page follows it.',
  delivered: 'Every delivery that a rule made of it arrived.',
  dead: 'At least one delivery failed for good. It can be redriven below.',
  discarded: 'Its dead deliveries were discarded and are not sent any more.',
  not_forwarded: 'It was accepted, and no rule forwards it.',
  rejected: 'Its contract blocked it.',
  failed: 'A stage could not process it. An operator can redrive it.',
  unknown: 'Not everything could be read in time.',
};

export const DELIVERY_STATUS: Readonly<Record<TracedDelivery['status'], Word>> = {
  pending: { text: 'Pending', tone: 'busy' },
  retrying: { text: 'Retrying', tone: 'warning' },
  delivered: { text: 'Delivered', tone: 'good' },
  dead: { text: 'Dead', tone: 'bad' },
  discarded: { text: 'Discarded', tone: 'neutral' },
  unknown: { text: 'Unknown', tone: 'warning' },
};

export const OUTCOME: Readonly<Record<string, Word>> = {
  accepted: { text: 'Accepted', tone: 'good' },
  warned: { text: 'Accepted with violations', tone: 'warning' },
  omitted: { text: 'Accepted, fields omitted', tone: 'warning' },
  rejected: { text: 'Rejected', tone: 'bad' },
};

/** The stage at which an event waits, in words. */
export const WAITS_FOR: Readonly<Record<NonNullable<EventTrace['stage']>, string>> = {
  validate: 'Waits for its contract to be evaluated',
  'validate.slow': 'Waits in the slow queue for its contract to be evaluated',
  route: 'Waits for the rules',
  'route.slow': 'Waits in the slow queue for the rules',
  deliver: 'Waits for its delivery',
  'deliver.slow': 'Waits in the slow queue of its destination',
  'deliver.retry': 'Waits for the next attempt',
};

/** Why a rule does not forward the event. */
export const NOT_MATCHED: Readonly<Record<NonNullable<TracedRule['because']>, string>> = {
  disabled: 'The rule is disabled.',
  environment: 'The rule takes no events of this environment.',
  event_type: 'The rule takes no events of this type.',
  event_name: 'The rule takes no events of this name.',
  filter: 'The filter does not match.',
  filter_failed: 'The filter failed for this event.',
  filter_not_evaluated: 'The filters of the rules before it took all the time there is for one event.',
  destination_disabled: 'The destination is disabled.',
  destination_environment: 'The destination takes no events of this environment.',
  not_at_the_time: 'The rule did not match at that time, so it did not forward the event.',
};

/** The cause of a dead delivery, in words. */
export const CAUSE: Readonly<Record<NonNullable<TracedDelivery['cause']>, string>> = {
  filter_failed: 'The filter of the rule failed',
  filter_not_evaluated: 'The filter of the rule was not evaluated',
  transformation: 'The transformation failed',
  rule: 'The rule was changed',
  destination: 'The destination refused it',
  expired: 'The time for its retries was over',
};
