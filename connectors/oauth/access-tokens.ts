import {
  type Access,
  type Catalog,
  type Clock,
  type ConnectionFacts,
  type Destination,
  type Fact,
  GRANT_WITHIN_MS,
  isClaimed,
  iso,
  isTokenUsable,
  type Logger,
  messageOf,
  newId,
  type Sealed,
  type ServiceGrants,
  type ServiceTokens,
} from '@tributary/core';

interface AccessTokensDependencies {
  readonly catalog: Pick<Catalog, 'state' | 'propose'>;
  readonly grants: Pick<ServiceGrants, 'refresh'>;
  /** Undefined for a destination that is not connected. Throws where no key opens its tokens. */
  openTokens(destination: Destination): ServiceTokens | undefined;
  sealTokens(destinationId: string, tokens: ServiceTokens): Sealed;
  readonly clock: Clock;
  wait(ms: number): Promise<unknown>;
  readonly logger: Logger;
}

/** How often a caller looks for tokens that another process refreshes, ms, and for how long. */
const LOOK_EVERY_MS = 200;
const LOOK_FOR_MS = 3_000;
/** The wait after a failed refresh, ms: each further failure doubles it. */
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 5 * 60_000;
/** How often new tokens are offered to a catalog that does not answer, ms, and for how long. */
const STORE_EVERY_MS = 1_000;
const STORE_FOR_MS = 10 * 60_000;

const NOT_CONNECTED: Access = { kind: 'later', reason: 'the destination is not connected' };
const CLAIMED: Access = { kind: 'later', reason: 'another process refreshes the access token' };
const NO_REFRESH: Access = { kind: 'refused', reason: 'the access token is not valid any more' };

/** How the last refreshes of a destination ended. */
interface Failure {
  /** The tokens that were not refreshed. */
  readonly sealed: string | undefined;
  readonly count: number;
  /** Epoch ms. */
  readonly until: number;
  readonly reason: string;
}

/**
 * The access tokens of connected destinations.
 *
 * - One process of the installation refreshes the tokens of a destination at a time: it claims the connection in the catalog.
 * - New tokens are stored before they are used. A refresh outlives the delivery that needs it, and a catalog that does not
 *   answer: the service may have made the old refresh token invalid.
 * - Where the answer of a service or its process was lost, the stored refresh token is sent again; a service that refuses it
 *   then has to be connected again.
 */
export class AccessTokens {
  readonly #dependencies: AccessTokensDependencies;
  /** Of this process, in its claims. */
  readonly #id = newId();
  readonly #refreshing = new Map<string, Promise<Access>>();
  readonly #failures = new Map<string, Failure>();
  /** Connections whose tokens were refused, by the sealed text of these. */
  readonly #refused = new Map<string, { readonly sealed: string | undefined; readonly access: Access }>();
  #closed = false;

  constructor(dependencies: AccessTokensDependencies) {
    this.#dependencies = dependencies;
  }

  /** See `ConnectorDestination.access`. */
  async access(destinationId: string, refused?: string): Promise<Access> {
    try {
      const known = this.#stored(destinationId, refused);
      if (known !== undefined) return known;
      const refreshing = this.#refreshing.get(destinationId) ?? this.#begin(destinationId, refused);
      return await refreshing;
    } catch (error) {
      const about = { destination: destinationId, error: messageOf(error) };
      this.#dependencies.logger.error(about, 'an access token cannot be had; deliveries are retried');
      return { kind: 'later', reason: 'the access token cannot be read or stored' };
    }
  }

  /** Waits for the refreshes under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#refreshing.values());
  }

  /** Undefined where a refresh is needed. */
  #stored(destinationId: string, refused: string | undefined): Access | undefined {
    const { catalog, openTokens, clock } = this.#dependencies;
    const destination = catalog.state.destination(destinationId);
    const connection = destination?.connection;
    if (destination === undefined || connection?.state !== 'connected') return NOT_CONNECTED;
    const known = this.#refused.get(destinationId);
    if (known !== undefined && known.sealed === connection.tokens?.$sealed) return known.access;
    const tokens = openTokens(destination);
    if (tokens === undefined) return NOT_CONNECTED;
    if (isTokenUsable(connection, tokens, refused, clock()))
      return { kind: 'token', token: tokens.access, settings: connection.settings ?? {} };
    return tokens.refresh === undefined ? NO_REFRESH : undefined;
  }

  #begin(destinationId: string, refused: string | undefined): Promise<Access> {
    const refreshing = this.#refresh(destinationId, refused).finally(() =>
      this.#refreshing.delete(destinationId),
    );
    this.#refreshing.set(destinationId, refreshing);
    return refreshing;
  }

  async #refresh(destinationId: string, refused: string | undefined): Promise<Access> {
    const { catalog, clock, wait } = this.#dependencies;
    const until = clock() + LOOK_FOR_MS;
    while (!this.#closed) {
      const known = this.#stored(destinationId, refused);
      const connection = catalog.state.destination(destinationId)?.connection;
      if (known !== undefined || connection === undefined) return known ?? NOT_CONNECTED;
      const failure = this.#failures.get(destinationId);
      const waitMs = (failure?.until ?? 0) - clock();
      if (failure !== undefined && failure.sealed === connection.tokens?.$sealed && waitMs > 0)
        return { kind: 'later', reason: failure.reason, afterMs: waitMs };
      if (!isClaimed(connection, clock())) {
        const claimedAt = clock();
        const claim = { type: 'connection.claimed', data: { id: this.#id } } as const;
        if (await this.#propose(destinationId, connection.turns, claim))
          return this.#refreshClaimed(destinationId, connection.turns + 1, claimedAt, refused);
      } else if (clock() >= until) return CLAIMED;
      await wait(LOOK_EVERY_MS);
    }
    return { kind: 'later', reason: 'stopped' };
  }

  async #refreshClaimed(
    destinationId: string,
    turns: number,
    claimedAt: number,
    refused: string | undefined,
  ): Promise<Access> {
    const { catalog, grants, openTokens, clock, logger } = this.#dependencies;
    const destination = catalog.state.destination(destinationId);
    const tokens = destination && openTokens(destination);
    // A process that was stopped for long in between has lost its claim, and so has one beside a new connection.
    const isLost = destination?.connection?.turns !== turns || clock() - claimedAt > GRANT_WITHIN_MS;
    if (destination === undefined || tokens === undefined || isLost) return CLAIMED;
    const result = await grants.refresh(destination, tokens);
    if (result.kind === 'granted') {
      const { tokens: granted, settings } = result.grant;
      const kept = { ...(tokens.refresh !== undefined && { refresh: tokens.refresh }), ...granted };
      const { settings: before = {} } = destination.connection ?? {};
      const renewed = tokens.access === refused ? { renewed: true as const } : {};
      return this.#store(destinationId, turns, kept, { settings: { ...before, ...settings }, ...renewed });
    }
    const about = { destination: destinationId, reason: result.reason };
    if (result.kind === 'refused') {
      logger.warn(
        about,
        'the service refuses the tokens of a destination, which waits to be connected again',
      );
      const access: Access = { kind: 'refused', reason: result.reason };
      this.#refused.set(destinationId, { sealed: destination.connection?.tokens?.$sealed, access });
      return access;
    }
    const count = (this.#failures.get(destinationId)?.count ?? 0) + 1;
    const backoff = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (count - 1));
    const afterMs = Math.min(LONGEST_WAIT_MS, Math.max(backoff, result.afterMs ?? 0));
    const sealed = destination.connection?.tokens?.$sealed;
    this.#failures.set(destinationId, { sealed, count, until: clock() + afterMs, reason: result.reason });
    logger.warn({ ...about, after_ms: afterMs }, 'the access token of a destination was not refreshed');
    // Else other processes would wait until the claim ends by time.
    await this.#propose(destinationId, turns, {
      type: 'connection.claimed',
      data: { id: this.#id, ended: true },
    });
    return { kind: 'later', reason: result.reason, afterMs };
  }

  async #store(
    destinationId: string,
    turns: number,
    tokens: ServiceTokens,
    others: Omit<ConnectionFacts['connection.refreshed'], 'tokens'>,
  ): Promise<Access> {
    const { catalog, sealTokens, clock, wait, logger } = this.#dependencies;
    const sealed = sealTokens(destinationId, tokens);
    const change = { type: 'connection.refreshed', data: { tokens: sealed, ...others } } as const;
    const until = clock() + STORE_FOR_MS;
    this.#failures.delete(destinationId);
    for (let isLogged = false; ; isLogged = true) {
      try {
        const isStored =
          (await this.#propose(destinationId, turns, change)) ||
          // An earlier proposal without an answer may have been appended.
          catalog.state.destination(destinationId)?.connection?.tokens?.$sealed === sealed.$sealed;
        if (!isStored) return CLAIMED;
        return { kind: 'token', token: tokens.access, settings: others.settings };
      } catch (error) {
        if (clock() > until) throw error;
        const about = { destination: destinationId, error: messageOf(error) };
        if (!isLogged) logger.warn(about, 'refreshed tokens cannot be stored yet; this is tried again');
        await wait(STORE_EVERY_MS);
      }
    }
  }

  /** Whether the catalog applied a change of the connection with so many changes before. */
  async #propose(destinationId: string, turns: number, change: ConnectionChange): Promise<boolean> {
    const { catalog, clock } = this.#dependencies;
    const fact: Fact = {
      v: 1,
      ...change,
      entity: destinationId,
      expected_version: turns,
      by: 'stage:deliver',
      from: { address: '', request_id: '' },
      at: iso(clock()),
    };
    return (await catalog.propose(fact)).applied;
  }
}

type ConnectionChange = {
  readonly [T in 'connection.claimed' | 'connection.refreshed']: {
    readonly type: T;
    readonly data: ConnectionFacts[T];
  };
}['connection.claimed' | 'connection.refreshed'];
