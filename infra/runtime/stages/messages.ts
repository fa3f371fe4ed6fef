import type { MessagePort } from 'node:worker_threads';
import type { Config } from '../config/settings.ts';
import type { MetricsSnapshot } from '../observability/metrics.ts';
import type { Readiness } from '../observability/readiness.ts';

/** What the process hands the thread of its stages at the start. */
export interface StagesStart {
  readonly config: Config;
  /** Which of the pipeline's stages run; all when absent. */
  readonly stages?: readonly string[];
  /** Leads to the gateway of this process, for its live tail. */
  readonly liveLink?: MessagePort;
}

export type ToStages = { readonly type: 'stop' } | { readonly type: 'metrics' };

export type FromStages =
  | { readonly type: 'running' }
  | { readonly type: 'stopped' }
  /** The stages cannot start, or one died; the message is for people. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'readiness'; readonly readiness: Readiness }
  | { readonly type: 'metrics'; readonly snapshot: MetricsSnapshot };
