import {
  type KeptEvent,
  type LiveTail,
  TAIL_LIMITS,
  type TailedEvent,
  type TailItem,
  type TailLimits,
} from '@tributary/core';

/** Access of the suite to one adapter. */
export interface LiveTailHarness {
  readonly name: string;
  create(limits: TailLimits): Promise<LiveTailSetup>;
}

/** One store of tails. */
export interface LiveTailSetup {
  /** A writer, as used by the stages. */
  openWriter(): Promise<LiveTail>;
  /** A reader, as used by a gateway; each as if in its own process, where the adapter spans processes. */
  openReader(): Promise<LiveTail>;
  dispose(): Promise<void>;
}

export const WORKSPACE_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';
export const OTHER_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a02';
export const LIMITS: TailLimits = { ...TAIL_LIMITS, events: 200, characters: 40_000 };

/** Events with these offsets; each event carries its offset as its data. */
export function events(
  from: number,
  to: number,
  changes: Partial<Omit<TailedEvent, 'offset'>> = {},
): readonly TailedEvent[] {
  return Array.from({ length: to - from }, (_, index) => {
    const offset = from + index;
    return {
      workspaceId: WORKSPACE_ID,
      environment: 'production',
      data: `{"n":${offset}}`,
      offset,
      ...changes,
    };
  });
}

export function batch(
  taken: readonly TailedEvent[],
  changes: { topic?: string; partition?: number; end?: number } = {},
) {
  return { topic: 'events.accepted', partition: 0, events: taken, ...changes };
}

/** A follower that takes all items whenever it is woken. */
export interface Following {
  readonly items: readonly TailItem[];
  events(): readonly KeptEvent[];
  /** The data of its events. */
  data(): readonly string[];
  lastId(): string | undefined;
  close(): void;
}

export async function follow(
  tail: LiveTail,
  {
    after,
    workspaceId = WORKSPACE_ID,
    turn = 1_000,
  }: { after?: string; workspaceId?: string; turn?: number } = {},
): Promise<Following> {
  const items: TailItem[] = [];
  let open = true;
  const takeAll = () => {
    for (
      let taken = follower?.take(turn) ?? [];
      open && taken.length > 0;
      taken = follower?.take(turn) ?? []
    ) {
      items.push(...taken);
    }
  };
  // Set before it is first woken with items.
  let follower: Awaited<ReturnType<LiveTail['follow']>> | undefined;
  follower = await tail.follow(workspaceId, { wake: takeAll, ...(after === undefined ? {} : { after }) });
  takeAll();
  const taken = () => items.flatMap((item) => (item.kind === 'event' ? [item.event] : []));
  return {
    items,
    events: taken,
    data: () => taken().map(({ data }) => data),
    lastId: () => follower.lastId,
    close() {
      open = false;
      follower.close();
    },
  };
}

/** The data of the events with these offsets. */
export function said(from: number, to: number): readonly string[] {
  return events(from, to).map(({ data }) => data);
}
