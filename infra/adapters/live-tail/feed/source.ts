import type { NumberedEvent } from './numbered-event.ts';

/** Part of a tail, as it is read from where it is kept. */
export interface TailPart {
  /** In order. Numbers may have a hole where events are kept no more. */
  readonly events: readonly NumberedEvent[];
  /** Where to read on: opaque to whoever reads. Absent while nothing was ever read. */
  readonly next: string | undefined;
  /** Whether more may be there already. */
  readonly more: boolean;
}

/** Where tails are kept, for the feeds of a process. */
export interface TailSource {
  /** What is kept behind `from`, or everything where it is absent. `Unavailable`. */
  read(workspaceId: string, from: string | undefined): Promise<TailPart>;
  /** From now on tells `changed` of this workspace. What changes while it cannot tell is found by reading. */
  watch(workspaceId: string): void;
  unwatch(workspaceId: string): void;
  close(): Promise<void>;
}
