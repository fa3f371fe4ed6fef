import type { Status } from '../../shared/status-badge.tsx';
import type { Delivery, DeliveryGroup } from './queries.ts';

export const STATUS: Readonly<Record<Delivery['status'], Status>> = {
  dead: { label: 'Dead', tone: 'bad', detail: 'It failed for good. It can be redriven or discarded.' },
  retrying: { label: 'Retrying', tone: 'warning', detail: 'It is tried again by itself.' },
  delivered: { label: 'Delivered', tone: 'good' },
  discarded: {
    label: 'Discarded',
    tone: 'neutral',
    detail: 'It was discarded on request, and is not sent again.',
  },
};

export const OUTCOME: Readonly<Record<Delivery['attempts'][number]['outcome'], Status>> = {
  delivered: { label: 'Delivered', tone: 'good' },
  retry: { label: 'Failed, tried again', tone: 'warning' },
  dead: { label: 'Failed for good', tone: 'bad' },
};

type Cause = NonNullable<DeliveryGroup['cause']>;

/** The cause of a dead delivery, in words. */
export const CAUSE: Readonly<Record<Cause, string>> = {
  destination: 'The destination refused it',
  transformation: 'The transformation failed',
  rule: 'The rule stopped it',
  filter_failed: 'The filter failed',
  filter_not_evaluated: 'The filter takes too much work',
  expired: 'It was tried for too long',
};

/** The remedy for a dead delivery, by its cause. */
export const ADVICE: Readonly<Record<Cause, string>> = {
  destination: 'Mend the destination or its settings, then redrive.',
  transformation: 'Mend the transformation, then redrive: it is applied again.',
  rule: 'Enable the rule, then redrive.',
  filter_failed: 'Mend the filter of the rule, then redrive: it is evaluated again.',
  filter_not_evaluated: 'Make the filter simpler, then redrive: it is evaluated again.',
  expired: 'See that the destination answers, then redrive.',
};
