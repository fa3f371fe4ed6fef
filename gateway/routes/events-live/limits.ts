/** Live streams open at once at this gateway: of all, of one workspace, organization and account. */
export interface LiveLimits {
  readonly streams: number;
  readonly workspaceStreams: number;
  readonly organizationStreams: number;
  /** Of an account and the API keys it made. */
  readonly accountStreams: number;
  /** How often a stream says that it is still there, ms. Default 15,000. */
  readonly commentEveryMs?: number;
  /** How long a client may read nothing while there is something to read, ms. Default 60,000. */
  readonly patienceMs?: number;
}

export const COMMENT_EVERY_MS = 15_000;
export const PATIENCE_MS = 60_000;
