import type { Sample } from './positions.ts';

/** A smaller lag may consist of transaction markers, behind which no position is committed. */
const AT_LEAST = 50;

/** A period without progress in a partition with a lag. */
export interface Standstill {
  readonly stage: string;
  readonly partition: number;
  readonly ms: number;
}

/** The longest standstill that ended between two moments, of each stage. */
export function longestStandstills(
  samples: readonly Sample[],
  from: number,
  to: number,
): readonly Standstill[] {
  const longest = new Map<string, Standstill>();
  for (const ofOne of Map.groupBy(samples, ({ stage, partition }) => `${stage} ${partition}`).values()) {
    for (const standstill of standstillsOf(ofOne, from, to)) {
      const known = longest.get(standstill.stage);
      if (known === undefined || known.ms < standstill.ms) longest.set(standstill.stage, standstill);
    }
  }
  return [...longest.values()];
}

/** Of one partition, in the order of time. */
function standstillsOf(samples: readonly Sample[], from: number, to: number): readonly Standstill[] {
  const found: Standstill[] = [];
  let since: Sample | undefined;
  for (const sample of samples) {
    const moved = since === undefined || sample.committed !== since.committed;
    if (moved && since !== undefined && sample.at >= from && sample.at <= to) {
      const { stage, partition } = sample;
      found.push({ stage, partition, ms: sample.at - since.at });
    }
    // A standstill begins when the partition has a lag.
    const hasWork = sample.end - sample.committed >= AT_LEAST;
    if (!hasWork) since = undefined;
    else if (moved) since = sample;
  }
  return found;
}

/** Records a second processed by each stage between two moments. */
export function ratesOf(samples: readonly Sample[], from: number, to: number): ReadonlyMap<string, number> {
  const within = samples.filter(({ at }) => at >= from && at <= to);
  const rates = new Map<string, number>();
  for (const ofOne of Map.groupBy(within, ({ stage, partition }) => `${stage} ${partition}`).values()) {
    const [first, last] = [ofOne[0], ofOne.at(-1)];
    if (first === undefined || last === undefined || last.at === first.at) continue;
    const rate = ((last.committed - first.committed) / (last.at - first.at)) * 1_000;
    rates.set(first.stage, (rates.get(first.stage) ?? 0) + rate);
  }
  return rates;
}
