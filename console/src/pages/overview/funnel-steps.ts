import type { FunnelCounts } from './overview-calls.ts';
import type { Measure } from './search.ts';

/** A number beside a step: a loss, or a note. */
export interface FunnelPart {
  readonly measure: Measure;
  readonly count: number;
  /** The largest first. Counts without a reason are not in the list. */
  readonly reasons: readonly { readonly reason: string; readonly count: number }[];
}

export interface FunnelStep {
  readonly title: string;
  readonly count: number;
  /** The measures that `count` is the sum of. */
  readonly measures: readonly Measure[];
  /** The losses between the step before and this one. */
  readonly left: readonly FunnelPart[];
  /** Noteworthy numbers of this step, which are no losses. */
  readonly notes: readonly FunnelPart[];
  /** Events between the step before and this one that are still being processed. */
  readonly underWay: number;
  /** The unit of `count`: from a certain step on an event counts once for each rule, or for each delivery. */
  readonly counts: 'events' | 'rules' | 'deliveries';
}

/** The funnel of a workspace. See `docs/reference/funnel-numbers.md` for how the numbers add up. */
export function funnelStepsOf(totals: FunnelCounts): readonly FunnelStep[] {
  const of = (measure: Exclude<keyof FunnelCounts, 'reasons' | 'latency'>) => totals[measure] ?? 0;
  const part = (measure: Measure): readonly FunnelPart[] =>
    of(measure) === 0 ? [] : [{ measure, count: of(measure), reasons: reasonsOf(totals, measure) }];
  const ofRules = of('matched') + of('replayed');
  const delivered = of('delivered_first') + of('delivered_later');
  const rulesApplied = ofRules + redrivenRules(totals);
  const redriven = of('redriven') - redrivenRules(totals);
  return [
    {
      title: 'Received',
      count: of('received'),
      measures: ['received'],
      left: [],
      notes: part('duplicate'),
      underWay: 0,
      counts: 'events',
    },
    {
      title: 'Accepted',
      count: of('accepted'),
      measures: ['accepted'],
      left: part('rejected'),
      notes: part('warned'),
      underWay: atLeast0(
        of('received') + of('reevaluated') - of('duplicate') - of('rejected') - of('accepted'),
      ),
      counts: 'events',
    },
    {
      title: 'Taken by a rule',
      count: ofRules,
      measures: of('replayed') > 0 ? ['matched', 'replayed'] : ['matched'],
      left: part('filtered'),
      notes: [],
      underWay: 0,
      counts: 'rules',
    },
    {
      title: 'Transformed',
      count: of('passed') + of('transformed'),
      measures: ['passed', 'transformed'],
      left: [...part('dropped'), ...part('failed')],
      notes: [],
      underWay: atLeast0(rulesApplied - of('passed') - of('transformed') - of('dropped') - of('failed')),
      counts: 'rules',
    },
    {
      title: 'Delivered',
      count: delivered,
      measures: ['delivered_first', 'delivered_later'],
      left: [...part('dead'), ...part('unwanted')],
      notes: part('retried'),
      underWay: atLeast0(of('created') + redriven - delivered - of('unwanted') - deadOfDeliveries(totals)),
      counts: 'deliveries',
    },
  ];
}

function reasonsOf({ reasons = [] }: FunnelCounts, measure: Measure) {
  return reasons
    .filter((one) => one.measure === measure)
    .map(({ reason, count }) => ({ reason, count }))
    .sort((left, right) => right.count - left.count);
}

/** Redrives that apply a rule again instead of sending a delivery again. */
function redrivenRules(totals: FunnelCounts): number {
  return reasonsOf(totals, 'redriven').find(({ reason }) => reason === 'rule')?.count ?? 0;
}

/** Dead deliveries that had been created; other causes stop an event before its delivery is created. */
function deadOfDeliveries(totals: FunnelCounts): number {
  return reasonsOf(totals, 'dead')
    .filter(({ reason }) => ['destination', 'expired', 'rule'].includes(reason))
    .reduce((sum, { count }) => sum + count, 0);
}

/** The counts may be read between two commits, so a difference may be negative for a moment. */
function atLeast0(difference: number): number {
  return Math.max(0, difference);
}
