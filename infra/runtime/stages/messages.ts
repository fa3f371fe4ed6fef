import type { MessagePort } from 'node:worker_threads';
import type { SlotName } from '../../adapters/event-log/suspects/in-hand-table.ts';
import type { Config } from '../config/settings.ts';
import type { MetricsSnapshot } from '../observability/metrics.ts';
import type { Readiness } from '../observability/operations.ts';

/** What the process hands the thread of its stages at the start. */
export interface StagesStart {
  readonly config: Config;
  /** Which of the pipeline's stages run; all when absent. */
  readonly stages?: readonly string[];
  /** Leads to the gateway of this process, for its live tail. */
  readonly liveLink?: MessagePort;
}

/** The same with what the thread tells the process by, see `InHandTable`. */
export interface StagesThreadData extends StagesStart {
  readonly inHand: SharedArrayBuffer;
}

export type ToStages = { readonly type: 'stop' } | { readonly type: 'metrics' };

export type FromStages =
  | { readonly type: 'running' }
  | { readonly type: 'stopped' }
  /** The stages cannot start, or one died; the message is for people. */
  | { readonly type: 'failed'; readonly message: string }
  /** A slot of the table of what is in hand is for this partition from now on. */
  | { readonly type: 'in hand'; readonly slot: number; readonly name: SlotName }
  | { readonly type: 'readiness'; readonly readiness: Readiness }
  | { readonly type: 'metrics'; readonly snapshot: MetricsSnapshot };
