import type { EntityNames } from '../../shared/entity-names.ts';
import { plural } from '../../shared/quantities.ts';
import type { Tone } from '../../shared/status-badge.tsx';
import { placeOf } from '../destinations/warehouse/load-words.ts';
import type { EventTrace, TracedDelivery, TracedLoad, TracedRule } from './event-calls.ts';
import { DELIVERY_STATUS, OUTCOME, WAITS_FOR } from './event-words.ts';

/** A step of an event through the pipeline. */
export interface PathStep {
  readonly key: string;
  readonly title: string;
  readonly detail?: string;
  readonly tone: Tone;
  /** ISO 8601. */
  readonly at?: string;
  /** Time since the event was received, ms. */
  readonly afterMs?: number;
  /** The event waits here. */
  readonly isWaiting?: boolean;
}

interface Names {
  readonly destination: Pick<EntityNames, 'get'>;
  readonly contract: Pick<EntityNames, 'get'>;
}

/** The path of an event as steps, in the order in which it goes through them. */
export function stepsOf(trace: EventTrace, names: Names): readonly PathStep[] {
  const timed = (at: string) => ({ at, afterMs: Date.parse(at) - Date.parse(trace.received.at) });
  const steps: PathStep[] = [
    { key: 'received', title: 'Received', tone: 'good', detail: 'Durable in the log', at: trace.received.at },
  ];
  if (trace.contract !== null) steps.push(contractStep(trace.contract, names));
  if (trace.contract?.reevaluated)
    steps.push({
      key: 'reevaluated',
      title: 'Evaluated again by a replay',
      detail: OUTCOME[trace.contract.reevaluated.outcome]?.text ?? '',
      tone: 'good',
      ...timed(trace.contract.reevaluated.at),
    });
  if (trace.accepted !== null)
    steps.push({ key: 'accepted', title: 'Accepted', tone: 'good', ...timed(trace.accepted.at) });
  if (trace.accepted !== null && trace.rules.length > 0) steps.push(rulesStep(trace.rules));
  if (trace.status === 'not_forwarded' && trace.rules.length === 0)
    steps.push({ key: 'rules', title: 'No rules', detail: 'No rule forwards events yet', tone: 'neutral' });
  for (const rule of trace.rules) steps.push(...stepsOfRule(rule, names, timed));
  for (const load of trace.loads) steps.push(stepOfLoad(load, names, timed));
  if (trace.failed !== null)
    steps.push({
      key: 'failed',
      title: `Failed in stage ${trace.failed.stage}`,
      detail: trace.failed.error,
      tone: 'bad',
    });
  if (trace.stage !== null && !steps.some(({ isWaiting }) => isWaiting))
    steps.push({ key: 'waiting', title: WAITS_FOR[trace.stage], tone: 'busy', isWaiting: true });
  return steps;
}

const CONTRACT_STEP: Readonly<Record<NonNullable<EventTrace['contract']>['outcome'], string>> = {
  accepted: 'Keeps its contract',
  warned: 'Violates its contract, which warns',
  omitted: 'Undeclared fields omitted',
  rejected: 'Rejected by its contract',
};

function contractStep(contract: NonNullable<EventTrace['contract']>, { contract: names }: Names): PathStep {
  const { outcome, contract_id, contract_version, violations } = contract;
  if (contract_id === null)
    return {
      key: 'contract',
      title: 'No contract',
      detail: 'None described it when it was evaluated',
      tone: 'neutral',
    };
  const { tone } = OUTCOME[outcome] ?? { tone: 'neutral' as const };
  const name = names.get(contract_id) ?? 'its contract';
  const found = violations.length === 0 ? '' : `, ${plural(violations.length, 'violation')}`;
  return {
    key: 'contract',
    title: CONTRACT_STEP[outcome],
    detail: `${name}, version ${contract_version}${found}`,
    tone,
  };
}

function rulesStep(rules: readonly TracedRule[]): PathStep {
  const matched = rules.filter(({ matched }) => matched === true).length;
  return {
    key: 'rules',
    title: `${matched} of ${plural(rules.length, 'rule')} ${matched === 1 ? 'matches' : 'match'}`,
    tone: matched > 0 ? 'good' : 'neutral',
  };
}

function stepsOfRule(
  rule: TracedRule,
  { destination: names }: Names,
  timed: (at: string) => Pick<PathStep, 'at' | 'afterMs'>,
): readonly PathStep[] {
  const to = names.get(rule.destination_id) ?? 'its destination';
  if (rule.transformation === 'dropped')
    return [{ key: rule.rule_id, title: `Dropped by the transformation of ${rule.name}`, tone: 'neutral' }];
  if (rule.matched === true && rule.deliveries.length === 0 && rule.stage !== null)
    return [
      { key: rule.rule_id, title: WAITS_FOR[rule.stage], detail: rule.name, tone: 'busy', isWaiting: true },
    ];
  return rule.deliveries.map((delivery) => {
    const last = delivery.attempts.at(-1);
    return {
      key: delivery.id,
      title: `${DELIVERY_STATUS[delivery.status].text}: ${names.get(delivery.destination_id) ?? to}`,
      detail: detailOf(delivery),
      tone: DELIVERY_STATUS[delivery.status].tone,
      ...(last === undefined ? {} : timed(last.at)),
      ...(delivery.status === 'pending' || delivery.status === 'retrying' ? { isWaiting: true } : {}),
    };
  });
}

/** Discards that a step names. */
const MAX_DISCARDS = 5;

function stepOfLoad(
  { destination_id, status, loaded_at, discards }: TracedLoad,
  { destination: names }: Names,
  timed: (at: string) => Pick<PathStep, 'at' | 'afterMs'>,
): PathStep {
  const key = `load ${destination_id}`;
  const name = names.get(destination_id) ?? 'a warehouse';
  switch (status) {
    case 'waiting':
      return { key, title: `Waits for its load: ${name}`, tone: 'busy', isWaiting: true };
    case 'before':
      return {
        key,
        title: `Not loaded: ${name}`,
        detail: 'It was accepted before the warehouse was made. A replay loads it.',
        tone: 'neutral',
      };
    case 'unknown':
      return { key, title: `Not known whether it is loaded: ${name}`, tone: 'warning' };
    case 'loaded': {
      const places = (discards ?? []).map((discard) => `${placeOf(discard)} (${discard.reason})`);
      const more = places.length > MAX_DISCARDS ? `, and ${places.length - MAX_DISCARDS} more` : '';
      return {
        key,
        title: `Loaded: ${name}`,
        ...(places.length > 0 && {
          detail: `In discards: ${places.slice(0, MAX_DISCARDS).join(', ')}${more}`,
        }),
        tone: places.length > 0 ? 'warning' : 'good',
        ...(loaded_at === null ? {} : timed(loaded_at)),
      };
    }
  }
}

function detailOf({ first_try, attempts, reason, stage }: TracedDelivery): string {
  if (first_try) return 'At the first attempt';
  const count = attempts.length === 0 ? '' : `after ${plural(attempts.length, 'attempt')}`;
  const why = reason ?? (stage === null ? '' : WAITS_FOR[stage]);
  return [count, why].filter((part) => part !== '').join(': ');
}
