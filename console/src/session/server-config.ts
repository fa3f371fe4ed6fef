/** The gateway's configuration of the sign-in, readable before anybody has signed in. */
export interface ServerConfig {
  readonly version: string;
  readonly issuers: readonly Issuer[];
  /** Whether a link printed by `tributary dev` signs in. */
  readonly hasDevelopmentLink: boolean;
}

/** An OpenID Connect issuer that people sign in with. */
export interface Issuer {
  readonly issuer: string;
  readonly clientId: string;
}

interface Answer {
  readonly version: string;
  readonly issuers: readonly { readonly issuer: string; readonly client_id: string }[];
  readonly development_link: boolean;
}

/** Rejects if the server does not answer, or answers with an error. */
export async function readServerConfig(): Promise<ServerConfig> {
  const response = await fetch('/console/config.json');
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  const { version, issuers, development_link } = (await response.json()) as Answer;
  return {
    version,
    issuers: issuers.map(({ issuer, client_id }) => ({ issuer, clientId: client_id })),
    hasDevelopmentLink: development_link,
  };
}

/** How a button names an issuer: by its host, with its path where several are on one host. */
export function issuerLabel({ issuer }: Issuer, all: readonly Issuer[]): string {
  const { host, pathname } = new URL(issuer);
  const isOnlyOne = all.filter((other) => new URL(other.issuer).host === host).length < 2;
  return isOnlyOne ? host : `${host}${pathname.replace(/\/$/, '')}`;
}
