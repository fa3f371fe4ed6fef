import type { Config } from '../config/settings.ts';
import type { MetricsSnapshot } from '../observability/metrics.ts';

/** What the process hands the thread of its stages at the start. */
export interface StagesStart {
  readonly config: Config;
}

export type ToStages = { readonly type: 'stop' } | { readonly type: 'metrics'; readonly request: number };

export type FromStages =
  | { readonly type: 'running' }
  | { readonly type: 'stopped' }
  | { readonly type: 'metrics'; readonly request: number; readonly snapshot: MetricsSnapshot };
