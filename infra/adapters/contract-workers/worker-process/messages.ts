import type { ContractVerdict, SchemaFault } from '@tributary/core';

/** Definitions, contracts and events travel as JSON texts: written and read faster than objects are cloned. */
export type ContractTask =
  | { readonly kind: 'check'; readonly definition: string }
  | {
      readonly kind: 'evaluate';
      /** Names the contract for as long as the pool lives. */
      readonly key: number;
      /** Absent where this worker was given it before. */
      readonly contract?: string;
      readonly events: string;
    };

/** `unknown`: the worker does not keep the contract of that key any more. */
export type TaskAnswer =
  | { readonly kind: 'ready' }
  | { readonly kind: 'checked'; readonly faults: readonly SchemaFault[] }
  | { readonly kind: 'evaluated'; readonly verdicts: readonly ContractVerdict[] }
  | { readonly kind: 'unknown' };
