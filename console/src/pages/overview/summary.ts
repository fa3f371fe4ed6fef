import { durationText, numberText, plural, shareText } from '../../shared/quantities.ts';
import { funnelStepsOf } from './funnel-steps.ts';
import type { FunnelCounts } from './overview-calls.ts';

interface Deliveries {
  /** Deliveries that were made and that their destination takes. */
  readonly wanted: number;
  readonly arrived: number;
  readonly underWay: number;
  /** Dead or discarded. */
  readonly lost: number;
}

export function deliveriesOf(totals: FunnelCounts): Deliveries {
  const { created = 0, unwanted = 0, delivered_first = 0, delivered_later = 0 } = totals;
  const wanted = Math.max(0, created - unwanted);
  const arrived = Math.min(wanted, delivered_first + delivered_later);
  const underWay = Math.min(wanted - arrived, funnelStepsOf(totals).at(-1)?.underWay ?? 0);
  return { wanted, arrived, underWay, lost: wanted - arrived - underWay };
}

/** `75 % of 4 arrived, 1 is under way`. */
export function deliveriesText(totals: FunnelCounts): string {
  const { wanted, arrived, underWay, lost } = deliveriesOf(totals);
  if (wanted === 0) return (totals.created ?? 0) === 0 ? 'None was made' : 'No destination takes them';
  return [
    `${shareText(arrived, wanted)} of ${numberText(wanted)} arrived`,
    ...(underWay === 0 ? [] : [isOrAre(underWay, 'under way')]),
    ...(lost === 0 ? [] : [isOrAre(lost, 'dead or discarded')]),
  ].join(', ');
}

/** The numbers of the overview that come from a stage. The funnel itself shows what waits before the other stages. */
const SHOWN_BY_STAGE: Readonly<Record<string, string>> = {
  validate: 'events',
  funnel: 'counts',
  history: 'violations and dead deliveries',
};

/** The stages whose backlog the overview would otherwise present as if nothing had come or failed; the longest first. */
export function hiddenByStages(
  behind: readonly { readonly stage: string; readonly seconds: number }[],
): readonly { readonly stage: string; readonly text: string }[] {
  return behind
    .toSorted((a, b) => b.seconds - a.seconds)
    .flatMap(({ stage, seconds }) => {
      const shown = SHOWN_BY_STAGE[stage];
      if (shown === undefined) return [];
      return [
        { stage, text: `${shown} of the last ${durationText(seconds * 1_000)} are not shown here yet` },
      ];
    });
}

/** What became of the events of the time, where nothing needs attention; `isCalm`: nothing of them is left to be done. */
export function summaryOf(totals: FunnelCounts): { readonly isCalm: boolean; readonly text: string } {
  const { received = 0, duplicate = 0, accepted = 0, reevaluated = 0, retried = 0 } = totals;
  const { matched = 0, filtered = 0, replayed = 0, reasons = [] } = totals;
  if (received === 0) return { isCalm: true, text: 'No event was received in this time.' };
  const fresh = received + reevaluated - duplicate;
  const { wanted, arrived, underWay } = deliveriesOf(totals);
  const notMade = funnelStepsOf(totals).reduce((sum, step) => sum + step.underWay, -underWay);
  const overBudget = reasons
    .filter(({ measure, reason }) => measure === 'filtered' && reason === 'over_budget')
    .reduce((sum, { count }) => sum + count, 0);
  const isAccepted = accepted >= fresh;
  // Each rule counts every event that it was applied to: there is none, or the stage is behind.
  const isRouted = accepted === 0 || matched + filtered + replayed > 0;
  const hasArrived = arrived === wanted;
  const parts = [
    acceptedText(totals, fresh),
    wanted === 0
      ? isRouted
        ? 'no delivery made of them'
        : 'no rule applied to them'
      : hasArrived
        ? `all ${plural(wanted, 'delivery', 'deliveries')} made of them arrived`
        : `deliveries: ${deliveriesText(totals)}`,
    ...(!hasArrived && retried > 0 ? [`after ${plural(retried, 'retry', 'retries')}`] : []),
    ...(overBudget > 0 ? [`${numberText(overBudget)} given to no rule, over a budget of bytes`] : []),
  ];
  return {
    isCalm: isAccepted && isRouted && hasArrived && notMade + overBudget === 0,
    text: `${parts.join('; ')}.`,
  };
}

function acceptedText({ received = 0, duplicate = 0, accepted = 0 }: FunnelCounts, fresh: number): string {
  if (accepted < fresh) return `${numberText(accepted)} of ${plural(fresh, 'event')} accepted`;
  return duplicate === 0
    ? `${plural(received, 'event')} received, all accepted`
    : `${plural(received, 'event')} received, ${plural(duplicate, 'repeat')} left out, the others accepted`;
}

function isOrAre(count: number, what: string): string {
  return `${numberText(count)} ${count === 1 ? 'is' : 'are'} ${what}`;
}
