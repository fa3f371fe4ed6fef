/** Live streams open at once. */
export interface LiveLimits {
  /** At this gateway. */
  readonly streams: number;
  /** Of one workspace, at this gateway. */
  readonly workspaceStreams: number;
  /** How often a stream says that it is still there, ms. Default 15,000. */
  readonly commentEveryMs?: number;
  /** How long a client may read nothing while there is something to read, ms. Default 60,000. */
  readonly patienceMs?: number;
}

export const COMMENT_EVERY_MS = 15_000;
export const PATIENCE_MS = 60_000;
