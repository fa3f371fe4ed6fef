/** Where a stage is in one partition of a topic that it reads. */
export interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  /** All records below this offset are done. */
  readonly position: number;
  /** The offset of the next record that is appended. */
  readonly end: number;
  /** Records that are left, of which there may be fewer than offsets; on SQLite the entries in them. */
  readonly lag: number;
  /** When the log appended the oldest of them, epoch ms. Absent without lag, and where it is not known. */
  readonly oldestAt?: number;
}

/** Where a stage was at one moment, in all its partitions. */
export interface StageSample {
  /** Epoch ms. */
  readonly at: number;
  /** Processes that run the stage; undefined where that is not known. */
  readonly members: number | undefined;
  readonly partitions: readonly PartitionLag[];
}

/** The work that a stage has left, and the number of processes that it takes. Rates are in records per second. */
export interface StageLoad {
  readonly lagRecords: number;
  /** Age of the oldest record that is left; 0 without lag. Undefined where no age is known. */
  readonly lagSeconds: number | undefined;
  /** The rates are undefined for the first sample. */
  readonly arrivalPerSecond: number | undefined;
  readonly drainPerSecond: number | undefined;
  /** Until the lag is gone at these rates; `Infinity` where it does not shrink. */
  readonly secondsToEmpty: number | undefined;
  /** Processes that keep up with the arrivals and empty the lag in `EMPTY_WITHIN_S`; at most one a partition. */
  readonly wantedProcesses: number | undefined;
  /** Records per second of one process while the stage was behind, i.e. its capacity. Undefined until then. */
  readonly capacityPerProcess: number | undefined;
}

/** A stage whose oldest record is older than this is behind, so its processes do what they can, s. */
const BEHIND_AFTER_S = 10;
/** The time in which a lag is to be emptied, s. */
const EMPTY_WITHIN_S = 300;
/** The share of its capacity that a process is used to while the stage is not behind. */
const HEADROOM = 0.8;

/** Topics whose records wait in them on purpose, so that their lag is no backlog. */
export function isDelayedTopic(topic: string): boolean {
  return topic.startsWith('deliveries.retry.') || topic === 'mail.retry' || topic.startsWith('replays');
}

/**
 * The load of a stage between two samples, the earlier one undefined for the first. `capacity` is `capacityPerProcess` of
 * the load before: capacity shows only while a stage is behind, and holds afterwards.
 *
 * Wanted processes:
 * - behind and draining: as many as arrivals and lag take at the measured capacity, never fewer than there are;
 * - not behind: as many as the arrivals take at the last measured capacity with some headroom, never more than there are;
 *   as many as there are before any measurement;
 * - partitions that stand still count for neither, as more processes do not help them: as many as there are;
 * - always at least 1, and at most one a partition of the topic with the most.
 */
export function stageLoad(before: StageSample | undefined, now: StageSample, capacity?: number): StageLoad {
  const backlog = now.partitions.filter(({ topic }) => !isDelayedTopic(topic));
  const lagRecords = recordsIn(backlog);
  const known = { lagRecords, lagSeconds: ageOfOldest(backlog, now.at) };
  const rates = before === undefined ? undefined : ratesBetween(before, now);
  if (before === undefined || rates === undefined)
    return {
      ...known,
      arrivalPerSecond: undefined,
      drainPerSecond: undefined,
      secondsToEmpty: lagRecords === 0 ? 0 : undefined,
      wantedProcesses: undefined,
      capacityPerProcess: capacity,
    };
  const shrinks = rates.drainPerSecond - rates.arrivalPerSecond;
  return {
    ...known,
    ...rates,
    secondsToEmpty: lagRecords === 0 ? 0 : shrinks > 0 ? lagRecords / shrinks : Number.POSITIVE_INFINITY,
    ...processes(before, now, rates, capacity),
  };
}

/** How many processes are wanted, and what one can do. */
function processes(
  before: StageSample,
  { at, members, partitions }: StageSample,
  { arrivalPerSecond, drainPerSecond }: Rates,
  capacity: number | undefined,
): Pick<StageLoad, 'wantedProcesses' | 'capacityPerProcess'> {
  if (members === undefined) return { wantedProcesses: undefined, capacityPerProcess: capacity };
  const earlier = new Map(before.partitions.map((of) => [`${of.topic}/${of.partition}`, of.position]));
  const helped = partitions.filter(
    ({ topic, partition, position }) =>
      !isDelayedTopic(topic) && (members === 0 || position > (earlier.get(`${topic}/${partition}`) ?? 0)),
  );
  const lag = recordsIn(helped);
  const isBehind = areBehind(helped, at, arrivalPerSecond);
  const capacityPerProcess =
    isBehind && drainPerSecond > 0 && members > 0 ? drainPerSecond / members : capacity;
  const most = Math.max(1, ...partitions.map(({ partition }) => partition + 1));
  const bounded = (wanted: number) => Math.min(most, Math.max(1, wanted));
  if (capacityPerProcess === undefined) return { wantedProcesses: bounded(members), capacityPerProcess };
  if (isBehind) {
    const needed = (arrivalPerSecond + lag / EMPTY_WITHIN_S) / capacityPerProcess;
    return { wantedProcesses: bounded(Math.max(members, Math.ceil(needed))), capacityPerProcess };
  }
  const backlog = partitions.filter(({ topic }) => !isDelayedTopic(topic));
  if (areBehind(backlog, at, arrivalPerSecond))
    return { wantedProcesses: bounded(members), capacityPerProcess };
  const enough = Math.ceil(arrivalPerSecond / (capacityPerProcess * HEADROOM));
  return { wantedProcesses: bounded(Math.min(members, enough)), capacityPerProcess };
}

function areBehind(partitions: readonly PartitionLag[], now: number, arrivalPerSecond: number): boolean {
  const age = ageOfOldest(partitions, now);
  return age === undefined ? recordsIn(partitions) > arrivalPerSecond * BEHIND_AFTER_S : age > BEHIND_AFTER_S;
}

interface Rates {
  readonly arrivalPerSecond: number;
  readonly drainPerSecond: number;
}

/** Undefined where no time has passed. A topic that was created again in between counts as idle. */
function ratesBetween(before: StageSample, now: StageSample): Rates | undefined {
  const seconds = (now.at - before.at) / 1_000;
  if (seconds <= 0) return undefined;
  const earlier = new Map(before.partitions.map((of) => [`${of.topic}/${of.partition}`, of]));
  const grownBy = (which: 'position' | 'end') =>
    sum(
      now.partitions.map((of) => {
        // A partition that was added in between began at offset 0.
        const from = earlier.get(`${of.topic}/${of.partition}`)?.[which] ?? 0;
        return Math.max(0, of[which] - from);
      }),
    );
  return { arrivalPerSecond: grownBy('end') / seconds, drainPerSecond: grownBy('position') / seconds };
}

/** 0 without lag; undefined where some are left and the age of none of them is known. */
function ageOfOldest(partitions: readonly PartitionLag[], now: number): number | undefined {
  const left = partitions.filter(({ lag }) => lag > 0);
  if (left.length === 0) return 0;
  const known = left.flatMap(({ oldestAt }) => (oldestAt === undefined ? [] : [oldestAt]));
  return known.length === 0 ? undefined : Math.max(0, now - Math.min(...known)) / 1_000;
}

/** Records that are left, also where `lag` counts the entries in them. */
function recordsIn(partitions: readonly PartitionLag[]): number {
  return sum(partitions.map(({ lag, position, end }) => Math.max(0, Math.min(lag, end - position))));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** A moment at which the end of a partition was known, or one at which a record was appended at this offset. */
interface EndAt {
  /** Epoch ms. */
  readonly at: number;
  readonly offset: number;
}

/** Points that are kept of a partition. */
const MAX_POINTS = 64;

/**
 * When the records of a partition were appended, from the ends that were seen: a record below the end of one moment and not
 * below the end of an earlier one was appended between the two. Costs no requests, and an offset without points around it
 * is answered with undefined.
 */
export class AppendTimes {
  #points: EndAt[] = [];

  /** Notes that the partition ended at `offset` at this time. A lower end than before starts again: another topic. */
  ended(at: number, offset: number): void {
    const last = this.#points.at(-1);
    if (last !== undefined && offset < last.offset) this.#points = [];
    if (last !== undefined && offset === last.offset && this.#points.length > 1) {
      // Idle: only the latest time of this end says something about the next record.
      const beforeLast = this.#points.at(-2);
      if (beforeLast?.offset === offset) this.#points.pop();
    }
    this.#points.push({ at, offset });
    if (this.#points.length > MAX_POINTS) this.#thin(at);
  }

  /** Notes when the record at `offset`, below all known ones, was appended. */
  appended(at: number, offset: number): void {
    const first = this.#points[0];
    if (first === undefined || offset < first.offset) this.#points.unshift({ at, offset });
  }

  /** When the record at `offset` was appended, interpolated; undefined where no earlier end is known, or no later one. */
  timeOf(offset: number): number | undefined {
    const after = this.#points.findIndex((point) => point.offset > offset);
    const from = this.#points[after - 1];
    const to = this.#points[after];
    if (from === undefined || to === undefined) return undefined;
    return from.at + ((to.at - from.at) * (offset - from.offset)) / (to.offset - from.offset);
  }

  /** Drops the point whose loss matters least beside its age: recent times stay exact, older ones to a share of their age. */
  #thin(now: number): void {
    const gap = (i: number) => (this.#points[i + 1]?.at ?? now) - (this.#points[i - 1]?.at ?? 0);
    const weight = (i: number) => gap(i) / (now - (this.#points[i]?.at ?? 0) + 1);
    let least = 1;
    for (let i = 2; i < this.#points.length - 1; i++) if (weight(i) < weight(least)) least = i;
    this.#points.splice(least, 1);
  }
}
