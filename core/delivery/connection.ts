import type { JsonObject } from '../event/event.ts';
import type { Sealed } from '../security/secrets.ts';

/** The tokens of an account at a service, in clear: never log them. */
export interface ServiceTokens {
  readonly access: string;
  /** Absent where the service gives none: the access token holds until it expires or is revoked. */
  readonly refresh?: string;
  /** When the access token is to be renewed, epoch ms; absent where the service does not say. */
  readonly expiresAt?: number;
}

/** The tokens that a service granted, and the settings of the destination that its answer decides. */
export interface ServiceGrant {
  readonly tokens: ServiceTokens;
  readonly settings: JsonObject;
}

/** The result of a request for tokens. Reasons are shown to users: short, no secrets. */
export type GrantResult =
  | { readonly kind: 'granted'; readonly grant: ServiceGrant }
  /** The service does not accept the code, or not the refresh token any more. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** No answer, or one that a later request may change. Whether the service granted tokens is not known. */
  | { readonly kind: 'failed'; readonly reason: string; readonly afterMs?: number };

/** The part of a destination that requests for tokens depend on. No secret setting is read. */
interface Connectable {
  readonly type: string;
  readonly settings: JsonObject;
}

/** A connection that a person began. */
interface GrantRequest {
  /** Where the service sends the browser back to. */
  readonly redirectUri: string;
  /** Of PKCE, where the service has it. */
  readonly verifier: string;
}

/**
 * The OAuth 2 clients of this installation at the services of its types of destinations.
 *
 * Requests go to the addresses of the service alone, through the egress guard, and end within `GRANT_WITHIN_MS`. No call
 * rejects for anything that a service does; a type without `service` in its description is a fault of the caller.
 */
export interface ServiceGrants {
  /** The page of the service that asks a person for access. */
  authorizeUrl(destination: Connectable, request: GrantRequest & { readonly state: string }): string;
  /** Exchanges the code in `callback`, the query that the service sent the browser back with. */
  exchange(
    destination: Connectable,
    request: GrantRequest & { readonly callback: URLSearchParams },
  ): Promise<GrantResult>;
  refresh(destination: Connectable, tokens: ServiceTokens): Promise<GrantResult>;
  /** Whether the service took back the tokens; false also where it documents no address for that. */
  revoke(destination: Connectable, tokens: ServiceTokens): Promise<boolean>;
}

/** The access of a destination to its service, at one moment. */
export type Access =
  | { readonly kind: 'token'; readonly token: string; readonly settings: JsonObject }
  /** Not now: deliveries wait. */
  | { readonly kind: 'later'; readonly reason: string; readonly afterMs?: number }
  /** The service does not accept the tokens any more: a person has to connect the destination again. */
  | { readonly kind: 'refused'; readonly reason: string };

/**
 * The connection of a destination with an account at a service (OAuth 2), as the catalog stores it. A change is a fact with
 * the number of changes before it, so of concurrent ones only one is applied.
 */
export interface Connection {
  readonly state: 'connected' | 'disconnected';
  /** Number of changes. */
  readonly turns: number;
  /** When the state changed last, ISO 8601, and by whom. Absent: it never was connected. */
  readonly at?: string;
  readonly by?: string;
  /** Of a connected one. */
  readonly tokens?: Sealed;
  readonly settings?: JsonObject;
  /** When the tokens were refreshed, ISO 8601, because the service had refused the ones before. */
  readonly renewed_at?: string;
  /** The only holder that may ask the service for tokens, see `isClaimed`. */
  readonly claim?: { readonly id: string; readonly at: string; readonly ended?: true };
}

/** Changes of connections, by the type of their facts; `expected_version` is the number of changes before. */
export interface ConnectionFacts {
  /** Resumes a destination that was paused because it was not connected. */
  'destination.connected': { readonly tokens: Sealed; readonly settings: JsonObject };
  /** Drops the tokens and pauses the destination. `refused`: the service does not accept them any more. */
  'destination.disconnected': { readonly refused?: true };
  /** `id` is about to ask the service for tokens, or has `ended` without any. */
  'connection.claimed': { readonly id: string; readonly ended?: true };
  /** Ends the claim too. `renewed`: the service had refused the access token before it expired. */
  'connection.refreshed': {
    readonly tokens: Sealed;
    readonly settings: JsonObject;
    readonly renewed?: true;
  };
}

/** A request for tokens ends within this time, ms. A claim lasts much longer, as the clocks of processes differ. */
export const GRANT_WITHIN_MS = 15_000;
const CLAIMED_MS = 120_000;

/** Whether the holder of a claim may be asking for tokens, so that others must wait. The claim of a killed process ends by time. */
export function isClaimed({ claim }: Pick<Connection, 'claim'>, now: number): boolean {
  return claim !== undefined && claim.ended !== true && now - Date.parse(claim.at) < CLAIMED_MS;
}

/** A token that is refused so soon after the one before was, ms, is not refreshed: the next one would be refused as well. */
const TRUSTED_MS = 5 * 60_000;

/** Whether requests can be made with these tokens. `refused`: the access token that the service refused. */
export function isTokenUsable(
  { renewed_at }: Pick<Connection, 'renewed_at'>,
  { access, expiresAt = Number.POSITIVE_INFINITY }: ServiceTokens,
  refused: string | undefined,
  now: number,
): boolean {
  if (expiresAt <= now) return false;
  return access !== refused || (renewed_at !== undefined && now - Date.parse(renewed_at) < TRUSTED_MS);
}

/** Reasons of a pause that connecting the destination ends. */
export const NOT_CONNECTED = ['not_connected', 'access_refused'] as const;

interface Connecting {
  readonly connection?: Connection;
  readonly paused?: boolean;
  readonly paused_because?: { readonly reason: string; readonly at: string } | null;
}

type ConnectionFact = {
  readonly [T in keyof ConnectionFacts]: {
    readonly type: T;
    readonly data: ConnectionFacts[T];
    readonly by: string;
    readonly at: string;
  };
}[keyof ConnectionFacts];

/** What a fact changes of a destination; undefined where it does not apply to the state of the connection. */
export function connectionChange(
  { connection, paused, paused_because }: Connecting,
  { type, data, by, at }: ConnectionFact,
) {
  const before: Connection = connection ?? { state: 'disconnected', turns: 0 };
  const turns = before.turns + 1;
  switch (type) {
    case 'destination.connected': {
      const isResumed = NOT_CONNECTED.some((reason) => reason === paused_because?.reason);
      return {
        connection: { state: 'connected' as const, turns, at, by, ...data },
        ...(isResumed && { paused: false, paused_because: null }),
      };
    }
    case 'destination.disconnected': {
      const reason = data.refused === true ? ('access_refused' as const) : ('not_connected' as const);
      return {
        connection: { state: 'disconnected' as const, turns, at, by },
        // A pause of a person, or for an answer 410, outlasts the next connection.
        ...(paused === true ? {} : { paused: true, paused_because: { reason, at } }),
      };
    }
    case 'connection.claimed':
      return { connection: { ...before, turns, claim: { ...data, at } } };
    case 'connection.refreshed': {
      if (before.state !== 'connected') return undefined;
      const { claim: _, renewed_at: __, ...others } = before;
      const { renewed, ...granted } = data;
      return { connection: { ...others, turns, ...granted, ...(renewed && { renewed_at: at }) } };
    }
  }
}
