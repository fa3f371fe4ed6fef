import type { TrustedIssuer } from '@tributary/gateway';
import type { Config } from '../config/settings.ts';
import { fetchKeys } from './fetch-keys.ts';
import { IssuerKeys, type IssuerKeysOptions } from './issuer-keys.ts';
import { FIRST_REST_MS } from './key-schedule.ts';

/** The identity platforms of the configuration. */
export interface OidcIssuers {
  readonly trusted: readonly TrustedIssuer[];
  /** How each answered last, by what `/readyz` calls it. */
  status(): Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** How often it is looked whether an issuer should be asked again. */
const LOOK_MS = FIRST_REST_MS;

/**
 * Asks each issuer for its keys at once, so that a wrong address is in the log before anybody signs in, and again from
 * time to time. None of them need answer: a start does not depend on them, nor one of them on another.
 */
export function openOidcIssuers(
  { issuers }: Pick<Config, 'issuers'>,
  tools: Pick<IssuerKeysOptions, 'logger' | 'metrics' | 'now'>,
): OidcIssuers {
  const opened = issuers.map((settings) => {
    const { issuer } = settings;
    return {
      settings,
      keys: new IssuerKeys({ issuer, fetch: (signal) => fetchKeys(issuer, signal), ...tools }),
    };
  });
  const refresh = () => {
    for (const { keys } of opened) keys.refresh();
  };
  refresh();
  const timer = setInterval(refresh, LOOK_MS).unref();
  return {
    trusted: opened.map(({ settings, keys }) => ({ ...settings, keys: keys.key })),
    status: () =>
      Object.fromEntries(opened.map(({ settings, keys }) => [`issuer ${settings.issuer}`, keys.status])),
    async close() {
      clearInterval(timer);
      await Promise.all(opened.map(({ keys }) => keys.close()));
    },
  };
}
