import type { ValueFraming } from '@tributary/core';

/** How the suite reaches one adapter. */
export interface ValueFramingHarness {
  readonly name: string;
  /** True when the public topics carry the ids of their schemas. */
  readonly frames: boolean;
  open(): Promise<ValueFraming>;
  /** Removes what opening left behind. */
  dispose(): Promise<void>;
}
