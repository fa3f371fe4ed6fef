import { numberText, plural } from '../../shared/quantities.ts';
import type { Status } from '../../shared/status-badge.tsx';
import type { Delivery, DeliveryGroup } from './queries.ts';

export const STATUS: Readonly<Record<Delivery['status'], Status>> = {
  dead: { label: 'Dead', tone: 'bad', detail: 'It failed for good. It can be redriven or discarded.' },
  retrying: { label: 'Retrying', tone: 'warning', detail: 'It is tried again by itself.' },
  delivered: { label: 'Delivered', tone: 'good' },
  unwanted: {
    label: 'Not sent',
    tone: 'neutral',
    detail: 'No action of the destination takes the event.',
  },
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

/** An attempt that was refused for the rate of requests. */
export const RATE_LIMITED: Status = { label: 'Rate limited, sent again', tone: 'neutral' };

/** `3 dead and 4 retrying, in 2 groups.` `more`: there are further groups. */
export function summaryOf(
  groups: readonly Pick<DeliveryGroup, 'status' | 'deliveries'>[],
  more: boolean,
): string {
  const of = (status: string) =>
    groups.filter((group) => group.status === status).reduce((sum, { deliveries }) => sum + deliveries, 0);
  const which = more ? `the ${numberText(groups.length)} largest groups` : plural(groups.length, 'group');
  return `${numberText(of('dead'))} dead and ${numberText(of('retrying'))} retrying, in ${which}.`;
}

/** Why a delivery has no attempt. */
export function noAttemptText({ status, cause }: Pick<Delivery, 'status' | 'cause'>): string {
  if (status === 'delivered') return 'Delivered at the first attempt, of which no record is kept.';
  if (status === 'retrying') return 'Nothing was sent to the destination yet.';
  return cause === 'expired'
    ? 'Nothing was sent to the destination before its time was over.'
    : 'Nothing was sent to the destination.';
}

type Cause = NonNullable<DeliveryGroup['cause']>;

/** The cause of a dead delivery, in words. */
export const CAUSE: Readonly<Record<Cause, string>> = {
  destination: 'The destination refused it',
  transformation: 'The transformation failed',
  rule: 'The rule stopped it',
  filter_failed: 'The filter failed',
  filter_not_evaluated: 'The filter takes too much work',
  expired: 'It was tried for too long',
  over_budget: 'The workspace was over a budget of bytes',
};

/** The remedy for a dead delivery, by its cause. */
export const ADVICE: Readonly<Record<Cause, string>> = {
  destination: 'Mend the destination or its settings, then redrive.',
  transformation: 'Mend the transformation, then redrive: it is applied again.',
  rule: 'Enable the rule, then redrive.',
  filter_failed: 'Mend the filter of the rule, then redrive: it is evaluated again.',
  filter_not_evaluated: 'Make the filter simpler, then redrive: it is evaluated again.',
  expired: 'See that the destination answers, then redrive.',
  over_budget: 'Redrive within the budget: all rules are applied then.',
};
