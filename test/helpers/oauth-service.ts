import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { onLoopback } from './on-loopback.ts';

/** A service with OAuth 2, whose refresh tokens are good once, and an API that takes its access tokens. */
export interface OAuthService {
  /** For a server whose requests are to go here. */
  readonly env: Readonly<Record<string, string>>;
  /** Paths of API calls that had a valid access token. */
  readonly accepted: readonly string[];
  readonly refreshes: number;
  /** The account takes back the access. */
  takeBack(): void;
  close(): Promise<void>;
}

export async function startOAuthService(): Promise<OAuthService> {
  const accepted: string[] = [];
  let granted = 0;
  let refreshes = 0;
  /** The first access token expires soon. */
  const lifetimes = [3];
  let access: string | undefined;
  let refresh: string | undefined;

  const tokensFor = (parameters: URLSearchParams) => {
    const type = parameters.get('grant_type');
    const isKnown = type === 'refresh_token' ? parameters.get('refresh_token') === refresh : type !== null;
    if (type === 'refresh_token') refreshes += 1;
    if (!isKnown || parameters.get('client_secret') !== 'client-secret') return undefined;
    granted += 1;
    access = `access-${granted}`;
    refresh = `refresh-${granted}`;
    return {
      access_token: access,
      refresh_token: refresh,
      expires_in: lifetimes.shift() ?? 3_600,
      token_type: 'Bearer',
    };
  };

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const answer = (status: number, body: object) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      const { pathname } = new URL(request.url ?? '', 'http://service');
      if (pathname.endsWith('/access_token')) {
        const tokens = tokensFor(new URLSearchParams(Buffer.concat(chunks).toString()));
        return tokens === undefined ? answer(400, { error: 'invalid_grant' }) : answer(200, tokens);
      }
      const isValid = access !== undefined && request.headers.authorization === `Bearer ${access}`;
      if (isValid) accepted.push(pathname);
      return isValid ? answer(200, {}) : answer(401, { error: 'unauthorized' });
    });
  });
  const { url, close } = await onLoopback(server);
  return {
    env: {
      TEST_SERVICES_URL: url,
      NODE_OPTIONS: `--import ${fileURLToPath(new URL('./redirect-services.ts', import.meta.url))}`,
      TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
      TRIBUTARY_OAUTH_CLIENTS: JSON.stringify({ snap: { id: 'client-1', secret: 'client-secret' } }),
    },
    accepted,
    get refreshes() {
      return refreshes;
    },
    takeBack() {
      access = undefined;
      refresh = undefined;
    },
    close,
  };
}
