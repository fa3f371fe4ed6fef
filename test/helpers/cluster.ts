import { rm } from 'node:fs/promises';
import { openDevIssuer } from '@tributary/infra';
import { Client, eventually } from './client.ts';
import { FRUGAL } from './embedded.ts';
import { engines, freshPrefix } from './engines.ts';
import { removePrefix } from './remove-prefix.ts';
import { scrape, type Tributary } from './running-tributary.ts';
import { ServerProcess } from './server-process.ts';

const EMAIL = 'dev@tributary.localhost';

/** The state shared by the processes on one data folder, from one start to the next. */
interface Installation {
  readonly prefix: string;
  quickstart?: Quickstart;
}

interface Quickstart {
  readonly workspaceId: string;
  readonly writeKey: string;
}

const installations = new Map<string, Installation>();

/** `tributary gateway` and `tributary processor` on the engines of the run, under a prefix of their own. */
export async function startCluster(
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<Tributary> {
  const installation = installations.get(folder) ?? { prefix: freshPrefix() };
  installations.set(folder, installation);
  const environment = { ...clusterEnvironment(installation.prefix), TRIBUTARY_DATA_DIR: folder, ...env };
  const gateway = new ServerProcess(['gateway'], environment);
  // A configured port goes to the gateway, because only one of the two can have it.
  const processor = new ServerProcess(['processor'], { ...environment, PORT: '0' });
  const processes = [gateway, processor];
  const stop = async () => {
    const codes = await Promise.all(processes.map((one) => one.stop()));
    return codes.find((code) => code !== 0) ?? 0;
  };
  try {
    const [url, adminUrls] = await Promise.all([readyAt(gateway), Promise.all(processes.map(adminOf))]);
    const idToken = await tokenOf(folder);
    installation.quickstart ??= await openWorkspace(url, folder, 'Quickstart');
    const { workspaceId, writeKey } = installation.quickstart;
    const owner = new Client(url, idToken, workspaceId);
    return {
      url,
      adminUrl: adminUrls[0] ?? '',
      folder,
      environment,
      pid: gateway.pid,
      workspaceId,
      writeKey,
      idToken,
      owner,
      producer: owner.with({ token: writeKey }),
      log: () => processes.map(({ log }) => log).join(''),
      async metrics() {
        return (await Promise.all(adminUrls.map(scrape))).join('\n');
      },
      async kill() {
        await Promise.all(processes.map((one) => one.kill()));
      },
      stop,
      async remove() {
        await Promise.all(processes.map((one) => one.end()));
        await removePrefix(installation.prefix);
        installations.delete(folder);
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await Promise.all(processes.map((one) => one.kill()));
    throw error;
  }
}

/** The environment of every process of an installation on the engines of the run. */
export function clusterEnvironment(prefix: string): Readonly<Record<string, string>> {
  const found = engines();
  if (found === undefined) throw new Error('there are no engines to run on');
  return {
    KAFKA_BROKERS: found.kafkaBrokers,
    REDIS_URL: found.redisUrl,
    SCHEMA_REGISTRY_URL: found.schemaRegistryUrl,
    ELASTICSEARCH_URL: found.elasticsearchUrl,
    TRIBUTARY_PREFIX: prefix,
    TRIBUTARY_PARTITIONS: '2',
    TRIBUTARY_DEV_ISSUER: '1',
    TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
    LOG_LEVEL: 'warn',
    ...FRUGAL,
  };
}

export async function readyAt(server: ServerProcess): Promise<string> {
  return (await server.printed(/ready at (\S+)/))[1] ?? '';
}

/** The admin port of a role, once it is ready. */
export async function adminOf(server: ServerProcess): Promise<string> {
  return (await server.printed(/metrics and readiness at ([^\s)]+)/))[1] ?? '';
}

/** A workspace of the person. Writes get 503 while brokers elect leaders for new topics, so it retries. */
async function makeWorkspace(person: Client, name: string): Promise<string> {
  const { status, body } = await eventually(
    () => person.call<{ id: string }>('POST', '/workspaces', { name }),
    (answer) => answer.status !== 503,
  );
  if (status !== 201) throw new Error(`POST /workspaces answered ${status}`);
  return body.id;
}

/** A new workspace at a gateway with this data folder: its owner, and a producer with a write key. */
export async function openWorkspace(url: string, folder: string, name: string) {
  const idToken = await tokenOf(folder);
  const person = new Client(url, idToken);
  const workspaceId = await makeWorkspace(person, name);
  const owner = person.with({ workspaceId });
  const wanted = { name, environment: 'production' };
  const { key: writeKey } = await owner.post<{ key: string }>('./event-keys', wanted);
  return { workspaceId, writeKey, idToken, owner, producer: owner.with({ token: writeKey }) };
}

/** An ID token of the development issuer of a data folder. */
const tokenOf = (folder: string) => openDevIssuer({ dataFolder: folder, devIssuerKey: '' }).mint(EMAIL);
