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
  loaded: { text: 'Loaded', tone: 'good' },
  not_forwarded: { text: 'Not forwarded', tone: 'neutral' },
  rejected: { text: 'Rejected', tone: 'bad' },
  failed: { text: 'Failed', tone: 'bad' },
  unknown: { text: 'Unknown', tone: 'warning' },
};

const MEANS: Readonly<Record<Exclude<EventTrace['status'], 'not_forwarded'>, string>> = {
  under_way: 'It is still being processed. This page follows it.',
  delivered: 'Every delivery of it that its destination takes arrived.',
  dead: 'At least one delivery failed for good. It can be redriven below.',
  discarded: 'Its dead deliveries were discarded and are not sent any more.',
  loaded: 'It was loaded into a warehouse, and there was nothing to deliver.',
  rejected: 'Its contract blocked it.',
  failed: 'A stage could not process it. An operator can redrive it.',
  unknown: 'Not everything could be read in time.',
};

/** The meaning of the status, in a sentence. */
export function eventMeaning({ status, rules }: Pick<EventTrace, 'status' | 'rules'>): string {
  if (status !== 'not_forwarded') return MEANS[status];
  if (rules.length === 0) return 'It was accepted, and there is no rule.';
  const why = [
    ...(rules.some(({ deliveries }) => deliveries.length > 0)
      ? ['no action of its destination takes it']
      : []),
    ...(rules.some(({ transformation }) => transformation === 'dropped')
      ? ['a transformation returned nothing for it']
      : []),
  ];
  return `It was accepted, and ${why.length === 0 ? 'no rule forwards it' : why.join(', and ')}.`;
}

/** Why an event has no delivery. */
export function noDeliveryText({ status, looked }: Pick<EventTrace, 'status' | 'looked'>): string {
  if (status === 'under_way') return 'None yet.';
  return looked.complete && status !== 'unknown'
    ? 'None: no delivery was made of it.'
    : 'None was found, and not everything could be read.';
}

export const DELIVERY_STATUS: Readonly<Record<TracedDelivery['status'], Word>> = {
  pending: { text: 'Pending', tone: 'busy' },
  retrying: { text: 'Retrying', tone: 'warning' },
  delivered: { text: 'Delivered', tone: 'good' },
  unwanted: { text: 'Not sent: no action takes it', tone: 'neutral' },
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
  integrations: 'The `integrations` of the event exclude the destination.',
  warehouse: 'The destination is a warehouse: the event is loaded, not delivered.',
  not_at_the_time: 'The rule did not match at that time, so it did not forward the event.',
  over_budget: 'No rule was applied, as the workspace was over a budget of bytes.',
};

/** The cause of a dead delivery, in words. */
export const CAUSE: Readonly<Record<NonNullable<TracedDelivery['cause']>, string>> = {
  filter_failed: 'The filter of the rule failed',
  filter_not_evaluated: 'The filter of the rule was not evaluated',
  transformation: 'The transformation failed',
  rule: 'The rule was changed',
  destination: 'The destination refused it',
  expired: 'The time for its retries was over',
  over_budget: 'The workspace was over a budget of bytes',
};
