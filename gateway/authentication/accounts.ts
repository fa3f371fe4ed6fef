import { type Account, type FactOrigin, iso, messageOf, nameId } from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Identity } from './id-tokens.ts';

/** After a change that could not be written none is tried for this long, ms: the log makes its callers wait to say so. */
const PAUSE_MS = 30_000;

/** The account of whoever signed in; undefined when it could not be made. */
export type FindAccount = (identity: Identity, from: FactOrigin) => Promise<Account | undefined>;

type AccountDependencies = Pick<GatewayDependencies, 'catalog' | 'clock' | 'logger'>;

/**
 * Accounts are made at their first sign-in. Their id is derived from issuer and subject, so two gateways make the same
 * one and the fold keeps the first. A sign-in that tells another verified e-mail address changes it, once: requests
 * that come together write one fact, later ones none. Who is known signs in also while nothing can be written.
 */
export function createFindAccount({ catalog, clock, logger }: AccountDependencies): FindAccount {
  /** What is being written, by account. */
  const writing = new Map<string, Promise<void>>();
  let pausedUntil = Number.NEGATIVE_INFINITY;

  /** One write for an account at a time; whoever comes meanwhile waits for it instead of writing. */
  function once(id: string, write: () => Promise<void>): Promise<void> {
    const running = writing.get(id);
    if (running !== undefined) return running;
    const begun = write().finally(() => writing.delete(id));
    writing.set(id, begun);
    return begun;
  }

  const about = (id: string, from: FactOrigin) =>
    ({ v: 1, entity: id, by: id, from, at: iso(clock()) }) as const;

  /** Whatever the fold decides is right: where it refuses, another gateway was first. */
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
        'the new e-mail address of an account could not be noted yet',
      );
    }
  }

  return async (identity, from) => {
    const id = nameId('account', identity.issuer, identity.subject);
    const known = catalog.state.account(id);
    if (known === undefined) {
      await once(id, () => create(id, identity, from));
    } else if (tellsNewEmail(identity, known) && clock() >= pausedUntil) {
      await once(id, () => updateEmail(known, identity, from));
    }
    return catalog.state.account(id);
  };
}

/**
 * An address that is verified and not the one that is known. Tokens of before a change stay good for an hour beside
 * those of after it: only a later one counts, or each request would change it back.
 */
function tellsNewEmail({ email, issuedAt }: Identity, account: Account): boolean {
  return email !== null && email !== account.email && issuedAt > (account.email_issued_at ?? '');
}
