/**
 * The mail that somebody asked for with a deletion of profiles. It says how many there were and never who: what was
 * deleted must not live on in a mailbox, or on its way there.
 */
export interface DeletionNotice {
  /** Of the request that deleted, a UUID. A notice that comes again under the same id is the same mail. */
  readonly id: string;
  /** Whose `notification_email` it goes to, as that is when the mail is sent. */
  readonly organization_id: string;
  readonly regions: readonly string[];
  /** When they were deleted, ISO 8601. */
  readonly at: string;
  /** Who deleted: an account id, or `key:<id>` of a client key. */
  readonly by: string;
  /** Different identities or ucids that were named, profiles that were deleted by them, and those that named none. */
  readonly counts: {
    readonly requested: number;
    readonly deleted: number;
    readonly not_found: number;
  };
}

/**
 * Resolves once the notice is durable: it is sent then, however long the mail server is away.
 * Errors: `Unavailable` when that is not known; asking again with the same notice sends one mail.
 */
export type RequestDeletionNotice = (notice: DeletionNotice) => Promise<void>;
