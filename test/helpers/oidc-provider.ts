import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { exportJWK, generateKeyPair, importJWK, type JWK, type JWTPayload, SignJWT } from 'jose';
import Provider, { type KoaContextWithOIDC } from 'oidc-provider';
import { freePort } from '../engines/engine-process.ts';

export const CLIENT_ID = 'tributary-console';
const CLIENT_SECRET = 'a secret of the tests';
const REDIRECT_URI = 'https://console.example/signed-in';
const ALGORITHM = 'RS256';

/** A person with an account at the provider. */
export interface Person {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean;
}

/** A certified OpenID Connect provider on its own port. */
export interface OidcProvider {
  /** Its address, and the `iss` of its tokens. */
  readonly issuer: string;
  /** The setting with which a gateway trusts it. */
  readonly settings: { readonly issuer: string; readonly audiences: readonly string[] };
  /** The number of requests for its keys. */
  readonly asked: number;
  /** The current private signing key. */
  readonly key: JWK;
  /** The ID token of a person after a regular sign-in: authorization code flow with PKCE. */
  signIn(person: Person): Promise<string>;
  /** The person who has an account in the browser, and signs in at the next request that may ask them. */
  inBrowser(person: Person): void;
  /** A token signed with the provider's key, with contents that the provider itself would never issue. */
  sign(
    changes?: Readonly<Record<string, unknown>>,
    header?: Readonly<Record<string, unknown>>,
  ): Promise<string>;
  /** Switches to a new signing key, and drops the old one. */
  rotate(): Promise<void>;
  /** Stops listening. */
  goDown(): Promise<void>;
  /** Accepts connections and never answers. */
  hang(): void;
  comeBack(): Promise<void>;
  close(): Promise<void>;
}

export interface OidcProviderOptions {
  /** The address of a gateway whose console is a public client (PKCE without a secret). Default: a client with a secret. */
  readonly consoleAt?: string;
}

export async function startOidcProvider({ consoleAt }: OidcProviderOptions = {}): Promise<OidcProvider> {
  const people = new Map<string, Person>();
  let key = await makeKey();
  let asked = 0;
  let handler: RequestListener = () => {};
  let browserPerson: string | undefined;
  const server = createServer((request, response) => handler(request, response));
  // Unlike a port that the system gives, no other server gets it while this one is down.
  const port = await freePort();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${port}`;

  const answer = () => {
    const provider = openProvider(issuer, key, people, consoleAt);
    const callback = provider.callback();
    handler = (request, response) => {
      if (request.url?.startsWith('/jwks')) asked++;
      if (request.url?.startsWith('/interaction/')) void logIn(provider, browserPerson, request, response);
      else void callback(request, response);
    };
  };
  const goDown = async () => {
    if (!server.listening) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  answer();

  return {
    issuer,
    settings: { issuer, audiences: [CLIENT_ID] },
    get asked() {
      return asked;
    },
    get key() {
      return key;
    },
    signIn(person) {
      people.set(person.sub, person);
      return codeFlow(issuer, person.sub);
    },
    inBrowser(person) {
      people.set(person.sub, person);
      browserPerson = person.sub;
    },
    async sign(changes = {}, header = {}) {
      const now = Math.floor(Date.now() / 1000);
      const claims = { iss: issuer, aud: CLIENT_ID, sub: 'ada', iat: now, exp: now + 3600, ...changes };
      return new SignJWT(claims as JWTPayload)
        .setProtectedHeader({ alg: ALGORITHM, kid: String(key.kid), ...header })
        .sign(await importJWK(key, ALGORITHM));
    },
    async rotate() {
      key = await makeKey();
      answer();
    },
    goDown,
    hang() {
      handler = () => {};
    },
    async comeBack() {
      answer();
      if (server.listening) return;
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
    close: goDown,
  };
}

async function makeKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  return {
    ...(await exportJWK(privateKey)),
    kid: randomBytes(6).toString('hex'),
    alg: ALGORITHM,
    use: 'sig',
  };
}

function openProvider(
  issuer: string,
  key: JWK,
  people: ReadonlyMap<string, Person>,
  consoleAt: string | undefined,
): Provider {
  return new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT_ID,
        ...(consoleAt === undefined
          ? { client_secret: CLIENT_SECRET, redirect_uris: [REDIRECT_URI] }
          : { token_endpoint_auth_method: 'none', redirect_uris: [`${consoleAt}/console/signed-in`] }),
        id_token_signed_response_alg: ALGORITHM,
      },
    ],
    clientBasedCORS: (_, origin) => origin === consoleAt,
    jwks: { keys: [{ ...key, kty: 'RSA' }] },
    cookies: { keys: ['cookies of the tests'], names: cookieNames(issuer) },
    claims: { email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    ttl: {
      AccessToken: 3600,
      AuthorizationCode: 60,
      Grant: 3600,
      IdToken: 3600,
      Interaction: 60,
      Session: 3600,
    },
    findAccount: (_, accountId) => ({
      accountId,
      claims: () => ({ ...people.get(accountId), sub: accountId }),
    }),
    loadExistingGrant: grantAll,
  });
}

/** Browsers keep the cookies of a host for all its ports: two providers of one name would end each other's sessions. */
function cookieNames(issuer: string) {
  const { port } = new URL(issuer);
  return { session: `_session_${port}`, interaction: `_interaction_${port}`, resume: `_resume_${port}` };
}

/** Grants every client consent without asking the person. */
async function grantAll({ oidc }: KoaContextWithOIDC) {
  const { client, session, provider } = oidc;
  if (client === undefined || session?.accountId === undefined) return undefined;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope('openid email');
  await grant.save();
  return grant;
}

/** Logs in the person named by the client's login hint. */
async function logIn(
  provider: Provider,
  browserPerson: string | undefined,
  ...[request, response]: Parameters<RequestListener>
): Promise<void> {
  const { params } = await provider.interactionDetails(request, response);
  await provider.interactionFinished(request, response, {
    login: { accountId: String(params.login_hint ?? browserPerson) },
  });
}

/** The sign-in steps of a browser and of its client, in order. */
async function codeFlow(issuer: string, person: string): Promise<string> {
  const verifier = randomBytes(32).toString('base64url');
  const query = new URLSearchParams({
    client_id: CLIENT_ID,
    response_type: 'code',
    scope: 'openid email',
    redirect_uri: REDIRECT_URI,
    login_hint: person,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  const code = new URL(await followToClient(new URL(`${issuer}/auth?${query}`))).searchParams.get('code');
  const answer = await fetch(`${issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${CLIENT_ID}:${encodeURIComponent(CLIENT_SECRET)}`)}` },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: String(code),
      redirect_uri: REDIRECT_URI,
      code_verifier: verifier,
    }),
  });
  const { id_token: idToken } = (await answer.json()) as { id_token?: string };
  if (idToken === undefined) throw new Error(`the provider gave no ID token: ${answer.status}`);
  return idToken;
}

async function followToClient(start: URL): Promise<string> {
  const cookies = new Map<string, string>();
  let at = start;
  for (let step = 0; step < 10; step++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(at, { redirect: 'manual', headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [name = '', value = ''] = line.split(';')[0]?.split(/=(.*)/) ?? [];
      cookies.set(name, value);
    }
    const location = answer.headers.get('location');
    if (location === null) throw new Error(`${at} answered ${answer.status}: ${await answer.text()}`);
    if (location.startsWith(REDIRECT_URI)) return location;
    at = new URL(location, at);
  }
  throw new Error('the provider leads nowhere');
}
