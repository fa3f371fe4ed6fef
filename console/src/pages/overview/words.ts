import type { EntityNames } from '../../shared/entity-names.ts';
import { CAUSE } from '../events/event-words.ts';
import type { Measure } from './search.ts';

/** The numbers of the funnel, as nouns: `12 rejected`. */
export const MEASURE: Readonly<Record<Measure, string>> = {
  received: 'received',
  duplicate: 'repeated',
  rejected: 'rejected',
  accepted: 'accepted',
  warned: 'accepted with violations',
  reevaluated: 'evaluated again',
  matched: 'taken by rules',
  replayed: 'replayed',
  filtered: 'not wanted by rules',
  passed: 'forwarded as they were',
  transformed: 'transformed',
  dropped: 'dropped by transformations',
  failed: 'transformations failed',
  created: 'deliveries made',
  redriven: 'sent again',
  delivered_first: 'delivered at the first attempt',
  delivered_later: 'delivered later',
  unwanted: 'not sent: the destination takes none of it',
  retried: 'retries',
  dead: 'dead',
};

const FILTERED: Readonly<Record<string, string>> = {
  environment: 'other environment',
  event_type: 'other type',
  event_name: 'other name',
  filter: 'filter does not match',
  filter_failed: 'filter failed',
  filter_not_evaluated: 'filter not evaluated',
  destination_disabled: 'destination disabled',
  destination_environment: 'destination takes no such environment',
  integrations: 'excluded by its integrations',
  warehouse: 'loaded into a warehouse',
  disabled: 'rule disabled',
  over_budget: 'workspace over a budget of bytes',
};

const KINDS: Readonly<Record<string, string>> = {
  required: 'a required field is missing',
  type: 'wrong type',
  enum: 'not one of the values',
  format: 'wrong format',
  pattern: 'wrong pattern',
  bounds: 'out of bounds',
  undeclared: 'undeclared field',
  schema: 'against the schema',
};

/** A reason of the funnel in words. The reason of rejected events is a contract and a kind of violation. */
export function reasonText(measure: Measure, reason: string, contracts: Pick<EntityNames, 'get'>): string {
  if (measure === 'rejected') {
    const [contractId = '', kind = ''] = reason.split('/');
    return `${contracts.get(contractId) ?? 'Contract'}: ${KINDS[kind] ?? kind}`;
  }
  if (measure === 'filtered') return FILTERED[reason] ?? reason;
  if (measure === 'dead' && reason in CAUSE) return CAUSE[reason as keyof typeof CAUSE].toLowerCase();
  return reason.replaceAll('_', ' ');
}
