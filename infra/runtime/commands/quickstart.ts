import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  type LiveTail,
  type Logger,
  messageOf,
  parseKey,
  type TailFollower,
  Unavailable,
} from '@tributary/core';
import { CONSOLE_PATH, type GatewayDependencies } from '@tributary/gateway';
import type { FastifyInstance } from 'fastify';
import { decodeJwt } from 'jose';
import type { Config } from '../config/settings.ts';
import { DEVELOPER, type DevIssuer, openDevIssuer } from '../issuer/dev-issuer.ts';
import { createLogger } from '../observability/logger.ts';
import { buildVersion } from '../observability/system-view.ts';
import { onThisMachine } from '../process/server-address.ts';
import type { OneProcessForm } from './one-process.ts';

/** The additions of `tributary dev` to `tributary serve`. */
export function developmentForm(config: Config): OneProcessForm {
  const issuer = openDevIssuer(config);
  const logger = createLogger(config.logLevel, { part: 'dev' });
  const secret = randomBytes(32).toString('base64url');
  return {
    command: 'dev',
    issuers: [issuer.trusted],
    developmentLink: { secret, mint: () => mintForConsole(issuer) },
    async announce({ server, admin, dependencies }) {
      // A pipe whose reader has ended, as in `tributary dev | head`: the server continues without it.
      process.stdout.on('error', (error) =>
        logger.info({ error: error.message }, 'standard output was closed'),
      );
      const quickstart = await prepareQuickstart(server.app, dependencies, issuer, config.dataFolder);
      const [url, adminUrl] = [onThisMachine(server.url), onThisMachine(admin.url)];
      const { workspaceId } = quickstart;
      const first = await followFirstEvent(dependencies.liveTail, workspaceId, logger);
      const consoleUrl = config.console ? `${url}${CONSOLE_PATH}` : undefined;
      const link = consoleUrl && `${consoleUrl}#secret=${secret}`;
      process.stdout.write(welcome(quickstart, { url, adminUrl, link, dataFolder: config.dataFolder }));
      void first.event.then((event) => {
        const pages = consoleUrl ? `${consoleUrl}w/` : `${url}/api/v1/workspaces/`;
        const urlOfEvent = (id: string) => `${pages}${workspaceId}/events/${encodeURIComponent(id)}`;
        process.stdout.write(`${describeFirstEvent(event, urlOfEvent)}\n`);
      });
    },
  };
}

async function mintForConsole(issuer: DevIssuer) {
  const token = await issuer.mint(DEVELOPER);
  const { exp = 0 } = decodeJwt(token);
  return { token, expiresAt: new Date(exp * 1_000).toISOString() };
}

/** Everything needed to send the first event. */
export interface Quickstart {
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
}

type StoredQuickstart = Omit<Quickstart, 'idToken'>;

/**
 * A workspace and a write key to start with, created through the API at the first start. The raw key is stored in the data
 * folder, for development only, so that later starts print the same one. A revoked key is replaced.
 */
export async function prepareQuickstart(
  app: FastifyInstance,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  issuer: DevIssuer,
  dataFolder: string,
): Promise<Quickstart> {
  const idToken = await issuer.mint(DEVELOPER);
  const file = join(dataFolder, 'quickstart.json');
  const stored = readStored(file);
  const hash = parseKey(stored?.writeKey ?? '')?.hash;
  // Everything is created again if the catalog is another one, the workspace archived, or the person not its admin.
  const isKnown = stored !== undefined && (await isOpen(app, idToken, stored.workspaceId));
  const isGood = hash !== undefined && catalog.state.keyByHash(hash)?.key.status === 'active';
  if (isKnown && isGood) return { ...stored, idToken };
  const made = await makeQuickstart(app, idToken, isKnown ? stored.workspaceId : undefined);
  writeFileSync(`${file}.new`, JSON.stringify(made), { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
  return { ...made, idToken };
}

/** Whether the workspace exists, is active, and the person is an admin of it. */
async function isOpen(app: FastifyInstance, idToken: string, workspaceId: string): Promise<boolean> {
  const answer = await app.inject({
    method: 'GET',
    url: `/api/v1/workspaces/${workspaceId}`,
    headers: { authorization: `Bearer ${idToken}`, 'x-workspace-id': workspaceId },
  });
  if (answer.statusCode !== 200) return false;
  const { status, role } = answer.json<{ status: string; role: string }>();
  return status === 'active' && role === 'admin';
}

async function makeQuickstart(
  app: FastifyInstance,
  idToken: string,
  known: string | undefined,
): Promise<StoredQuickstart> {
  const call = async <T>(url: string, payload: object, headers: Record<string, string> = {}): Promise<T> => {
    const answer = await app.inject({
      method: 'POST',
      url,
      payload,
      headers: { authorization: `Bearer ${idToken}`, ...headers },
    });
    if (answer.statusCode !== 201)
      throw new Error(`the first workspace cannot be made: ${answer.statusCode} ${answer.body}`);
    return answer.json<T>();
  };
  const workspaceId = known ?? (await call<{ id: string }>('/api/v1/workspaces', { name: 'Quickstart' })).id;
  const key = await call<{ key: string }>(
    `/api/v1/workspaces/${workspaceId}/event-keys`,
    { name: 'quickstart', environment: 'production' },
    { 'x-workspace-id': workspaceId },
  );
  return { workspaceId, writeKey: key.key };
}

function readStored(file: string): StoredQuickstart | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as StoredQuickstart;
  } catch {
    return undefined; // missing or incomplete
  }
}

interface InstallationUrls {
  readonly url: string;
  readonly adminUrl: string;
  /** Opens the console signed in; undefined where there is no console. */
  readonly link: string | undefined;
  readonly dataFolder: string;
}

/** The text that `tributary dev` prints once it is ready. */
function welcome({ workspaceId, writeKey, idToken }: Quickstart, urls: InstallationUrls): string {
  const { url, adminUrl, link, dataFolder } = urls;
  const console = link === undefined ? '' : `  console     ${link} (signs you in, once)\n`;
  const setting = dataFolder === resolve('data') ? '' : `TRIBUTARY_DATA_DIR=${quoted(dataFolder)} `;
  return `
Tributary ${buildVersion()} is ready at ${url}

${console}  workspace   ${workspaceId}
  write key   ${writeKey}
  ID token    ${idToken}
              (of ${DEVELOPER}, for an hour; another: ${setting}npm run token)
  data        ${dataFolder}
  admin port  ${adminUrl} (/metrics, /readyz)

Send an event from another terminal; this one says when it came:

  curl ${url}/api/v1/workspaces/${workspaceId}/events/track -H 'Authorization: Bearer ${writeKey}' -H 'Content-Type: application/json' -d '{"event":"Signed Up","user_id":"ada"}'

Many events: ${setting}npm run demo. Stop with Ctrl-C.
For development: anyone who can read the data folder can sign in as any person. In production: tributary serve.
`;
}

/** A path for a shell. */
function quoted(path: string): string {
  return /^[\w/.@+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/**
 * Follows a workspace until its first event after the call. `event` stays pending if there is none, and where the live
 * tail does not answer, which is logged.
 */
export async function followFirstEvent(
  liveTail: Pick<LiveTail, 'follow'>,
  workspaceId: string,
  logger: Logger,
): Promise<{ readonly event: Promise<ArrivedEvent> }> {
  const { promise, resolve } = Promise.withResolvers<ArrivedEvent>();
  let take: () => void = () => {};
  let follower: TailFollower;
  try {
    follower = await liveTail.follow(workspaceId, { wake: () => take() });
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    logger.warn({ error: messageOf(error) }, 'the first event will not be announced');
    return { event: promise };
  }
  follower.take(Number.POSITIVE_INFINITY); // those from before: a tail in Redis outlives the process
  take = () => {
    for (const item of follower.take(Number.POSITIVE_INFINITY)) {
      if (item.kind !== 'event') continue;
      take = () => {};
      follower.close();
      return resolve({ ...JSON.parse(item.event.data), environment: item.event.environment });
    }
  };
  take();
  return { event: promise };
}

/** The fields of an event in the live stream that are used here. */
export interface ArrivedEvent {
  readonly type: string;
  readonly message_id: string;
  readonly environment: string;
  readonly outcome: string;
  readonly event?: string | null;
  readonly user_id?: string | null;
  readonly anonymous_id?: string | null;
}

/** One line about the first event: what it was, what its contract said, and where to look. */
export function describeFirstEvent(arrived: ArrivedEvent, urlOfEvent: (messageId: string) => string): string {
  const { type, event, user_id, anonymous_id, environment, outcome, message_id } = arrived;
  const name = event ? ` "${printable(event)}"` : '';
  const subject = user_id ?? anonymous_id;
  const from = subject ? ` from ${printable(subject)}` : '';
  const where = environment === 'development' ? ' (development)' : '';
  return `The first event is here: ${type}${name}${from}${where}, ${outcome}. See ${urlOfEvent(message_id)}`;
}

/** Longest part of an event in the line. */
const MAX_CHARACTERS = 60;

/** A producer's text for a terminal, which acts on control characters. */
function printable(text: string): string {
  const characters = [...text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')];
  return characters.length <= MAX_CHARACTERS
    ? characters.join('')
    : `${characters.slice(0, MAX_CHARACTERS).join('')}...`;
}
