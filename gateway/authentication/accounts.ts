import { type Account, type FactOrigin, iso, messageOf, nameId } from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Identity } from './id-tokens.ts';

/** Pause after a failed write, ms: each write to a log that is down makes its caller wait for the error. */
const PAUSE_MS = 30_000;

/** The account of an identity; undefined when it could not be created. */
export type FindAccount = (identity: Identity, from: FactOrigin) => Promise<Account | undefined>;

type AccountDependencies = Pick<GatewayDependencies, 'catalog' | 'clock' | 'logger'>;

/**
 * Creates an account at its first sign-in. The id is derived from issuer and subject, so concurrent gateways create the
 * same account and the fold keeps the first. A sign-in with another verified e-mail address updates the account once,
 * however many requests come together. Known accounts can sign in while the catalog is not writable.
 */
export function createFindAccount({ catalog, clock, logger }: AccountDependencies): FindAccount {
  /** Writes in flight, by account. */
  const writing = new Map<string, Promise<void>>();
  let pausedUntil = Number.NEGATIVE_INFINITY;

  /** One write per account at a time; concurrent requests await it instead of writing. */
  function once(id: string, write: () => Promise<void>): Promise<void> {
    const running = writing.get(id);
    if (running !== undefined) return running;
    const begun = write().finally(() => writing.delete(id));
    writing.set(id, begun);
    return begun;
  }

  const about = (id: string, from: FactOrigin) =>
    ({ v: 1, entity: id, by: id, from, at: iso(clock()) }) as const;

  /** A verdict of the fold is not checked: when it refuses, another gateway was first. */
  async function create(id: string, identity: Identity, from: FactOrigin): Promise<void> {
    const { issuer, subject, email, issuedAt } = identity;
    const data = { id, issuer, subject, email, ...(email === null ? {} : { email_issued_at: issuedAt }) };
    await catalog.propose({ ...about(id, from), type: 'account.created', expected_version: 0, data });
  }

  async function updateEmail(account: Account, identity: Identity, from: FactOrigin): Promise<void> {
    const { id, version } = account;
    const data = { email: identity.email, email_issued_at: identity.issuedAt };
    try {
      await catalog.propose({ ...about(id, from), type: 'account.updated', expected_version: version, data });
    } catch (error) {
      pausedUntil = clock() + PAUSE_MS;
      logger.warn(
        { account_id: id, error: messageOf(error) },
        'the new e-mail address of an account is not recorded yet',
      );
    }
  }

  return async (identity, from) => {
    const id = nameId('account', identity.issuer, identity.subject);
    const known = catalog.state.account(id);
    if (known === undefined) {
      await once(id, () => create(id, identity, from));
    } else if (hasNewEmail(identity, known) && clock() >= pausedUntil) {
      await once(id, () => updateEmail(known, identity, from));
    }
    return catalog.state.account(id);
  };
}

/**
 * Whether the token has a verified address other than the stored one. Tokens issued before a change stay valid beside
 * newer ones, so only a later token counts; else the address would change back and forth.
 */
function hasNewEmail({ email, issuedAt }: Identity, account: Account): boolean {
  return email !== null && email !== account.email && issuedAt > (account.email_issued_at ?? '');
}
