import type { ValueFraming } from '@tributary/core';

/** Access of the suite to one adapter. */
export interface ValueFramingHarness {
  readonly name: string;
  /** True when the public topics carry the ids of their schemas. */
  readonly frames: boolean;
  open(): Promise<ValueFraming>;
  /** Removes everything that opening created. */
  dispose(): Promise<void>;
}
