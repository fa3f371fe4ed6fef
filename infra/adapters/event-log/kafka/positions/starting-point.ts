import type { Cursor } from '../../stage-runner/cursor.ts';

/** A position as the topic of positions has it. */
export interface RecordedPosition extends Cursor {
  /** When the log took the record of it, epoch ms. */
  readonly at: number;
}

/** What is known of a partition when a stage takes it over. */
export interface Evidence {
  /** Of the consumer group. */
  readonly stored: Cursor | undefined;
  /** The offsets of the partition that are kept: the first, and the one behind the last. */
  readonly first: number;
  readonly end: number;
}

/** What is asked for as well where the group has no position. */
export interface FurtherEvidence {
  readonly recorded: RecordedPosition | undefined;
  /** When the log took the first record that is kept, epoch ms; undefined where none is. */
  readonly firstAt: number | undefined;
  /** The stage began the topic at its first record, in all partitions. */
  readonly topicBegun: boolean;
  /** Positions are recorded since before the first event was worked off. */
  readonly sinceBeginning: boolean;
  /** There is a position of the stage in another partition of the topic, in the group or recorded. */
  readonly siblings: boolean;
  /** There is a recorded position of the stage in another topic. */
  readonly stageRecorded: boolean;
  /** A topic that the stage writes to has records. */
  readonly emitted: boolean;
  /** See `Stage.startsAtFirst`. */
  readonly startsAtFirst: boolean;
}

export type StartingPoint =
  /** Go on there; `lost`: the group had lost it. `anew`: the topic is another one than the position is of. */
  | { readonly from: Cursor; readonly found: 'stored' | 'lost' | 'anew' }
  /** Nothing is repeated by beginning with the first record. */
  | { readonly from: Cursor; readonly found: 'fresh' }
  /** The stage was at work there, or may have been: why it does not begin by itself. */
  | { readonly unknown: string };

/** Where a partition goes on by the position of the group; undefined where it has none. */
export function storedStart({ stored, first, end }: Evidence): StartingPoint | undefined {
  if (stored === undefined) return undefined;
  // A position behind the end is of a topic that was deleted and made anew.
  if (stored.offset > end) return { from: { offset: first, index: 0 }, found: 'anew' };
  return { from: stored, found: 'stored' };
}

/**
 * Where a partition without a position goes on. What a stage did once it does not do again by itself: it goes on where
 * the topic of positions says it was, begins where it surely never was, and else says what makes that doubtful.
 */
export function foundStart({ first, end }: Evidence, further: FurtherEvidence): StartingPoint {
  const beginning = { offset: first, index: 0 };
  const { recorded } = further;
  if (recorded !== undefined) {
    const isAnew = recorded.offset > end || (first < recorded.offset && (further.firstAt ?? 0) > recorded.at);
    if (isAnew) return { from: beginning, found: 'anew' };
    return { from: { offset: recorded.offset, index: recorded.index }, found: 'lost' };
  }
  const fresh = { from: beginning, found: 'fresh' } as const;
  // Where all positions are recorded since the beginning, one that is not was never there.
  if (further.startsAtFirst || first === end || further.topicBegun || further.sinceBeginning) return fresh;
  if (further.siblings) return { unknown: 'the stage has positions in other partitions of the topic' };
  if (first > 0) return { unknown: `the topic begins at ${first}, so the stage may have read what is gone` };
  if (further.stageRecorded || !further.emitted) return fresh;
  return { unknown: 'the topics that the stage writes to have records' };
}
