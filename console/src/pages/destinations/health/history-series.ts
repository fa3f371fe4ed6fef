import type { Schemas } from '../../../api/client.ts';
import { numberText, shareText } from '../../../shared/quantities.ts';

type History = Schemas['HealthHistory'];
type Bucket = Schemas['HealthBucket'];

/** A point of the charts. Null: nothing was measured, the line has a gap. */
export interface Point {
  /** ms since the epoch. */
  readonly at: number;
  readonly delivered: number;
  readonly retried: number;
  readonly dead: number;
  readonly put_off: number;
  /** Percent. */
  readonly success: number | null;
  readonly p50: number | null;
  readonly p99: number | null;
  readonly waiting: number;
  /** Seconds. */
  readonly oldest: number;
}

const LENGTH = { minute: 60_000, hour: 3_600_000 } as const;

/** One point for every minute or hour of the range, as the API leaves out those without deliveries. */
export function pointsOf({ from, until, bucket, buckets }: History): readonly Point[] {
  const length = LENGTH[bucket];
  const known = new Map(buckets.map((one) => [Math.floor(Date.parse(one.at) / length), one]));
  const first = Math.floor(Date.parse(from) / length);
  const last = Math.floor((Date.parse(until) - 1) / length);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) =>
    pointOf((first + index) * length, known.get(first + index)),
  );
}

function pointOf(at: number, bucket: Bucket | undefined): Point {
  if (bucket === undefined)
    return {
      at,
      delivered: 0,
      retried: 0,
      dead: 0,
      put_off: 0,
      success: null,
      p50: null,
      p99: null,
      waiting: 0,
      oldest: 0,
    };
  const { delivered, retried, dead, put_off, success_rate, p50_ms, p99_ms, waiting, oldest_waiting_ms } =
    bucket;
  return {
    at,
    delivered,
    retried,
    dead,
    put_off,
    success: success_rate === null ? null : success_rate * 100,
    p50: p50_ms,
    p99: p99_ms,
    waiting,
    oldest: oldest_waiting_ms / 1_000,
  };
}

export interface Totals {
  readonly delivered: number;
  readonly retried: number;
  readonly dead: number;
  readonly put_off: number;
  /** 0 to 1; null without any attempt. */
  readonly success: number | null;
}

export function totalsOf({ buckets }: Pick<History, 'buckets'>): Totals {
  const sum = (of: (bucket: Bucket) => number) => buckets.reduce((total, bucket) => total + of(bucket), 0);
  const [delivered, retried, dead] = [
    sum((bucket) => bucket.delivered),
    sum((bucket) => bucket.retried),
    sum((bucket) => bucket.dead),
  ];
  const attempts = delivered + retried + dead;
  return {
    delivered,
    retried,
    dead,
    put_off: sum((bucket) => bucket.put_off),
    success: attempts === 0 ? null : delivered / attempts,
  };
}

/** The totals in a sentence. Attempts that were refused for their rate are among the deferred ones. */
export function totalsText({ delivered, retried, dead, put_off, success }: Totals): string {
  const counts = `${numberText(delivered)} delivered, ${numberText(retried)} tried again, ${numberText(dead)} dead, ${numberText(put_off)} deferred`;
  return success === null
    ? `${counts}: no attempt ended.`
    : `${counts}: ${shareText(success, 1)} of the attempts delivered.`;
}

/** A period in which the circuit was not closed. */
export interface CircuitSpell {
  readonly from: number;
  readonly until: number;
  readonly state: 'open' | 'half-open';
}

/** Neighbouring minutes or hours of one state are one spell; the newest comes first. */
export function circuitSpells({
  bucket,
  buckets,
}: Pick<History, 'bucket' | 'buckets'>): readonly CircuitSpell[] {
  const length = LENGTH[bucket];
  const spells: CircuitSpell[] = [];
  for (const { at, circuit } of buckets) {
    if (circuit === 'closed') continue;
    const from = Date.parse(at);
    const last = spells.at(-1);
    if (last !== undefined && last.state === circuit && last.until === from)
      spells[spells.length - 1] = { ...last, until: from + length };
    else spells.push({ from, until: from + length, state: circuit });
  }
  return spells.reverse();
}
