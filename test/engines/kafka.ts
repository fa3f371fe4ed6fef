import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type ContainerSpec, dockerAnswers, startContainer } from './containers.ts';
import type { Engine, RunningEngine } from './engine.ts';
import { type Command, freePort, startEngine } from './engine-process.ts';
import type { Machine } from './machine.ts';
import { type Artifact, cachedFolder, copyArtifacts, type JavaNeed, needJdk, runTool } from './programs.ts';

const KAFKA_VERSION = '4.1.1';

export interface KafkaOptions {
  /** Also listen with TLS, with SASL (plain, scram-sha-256, scram-sha-512), and with both. */
  readonly secured?: boolean;
  /** Settings of the broker that override the defaults. */
  readonly settings?: Properties;
}

export interface RunningKafka extends RunningEngine {
  /** Access to the secured listeners, where they were requested. */
  readonly security: KafkaSecurity | undefined;
}

/**
 * One Kafka broker. `url` is its `host:port` without encryption or authentication. With secured listeners or settings of its
 * own it is always a process.
 */
export function kafkaEngine(machine: Machine): Engine<KafkaOptions, RunningKafka> {
  return {
    name: 'kafka',
    async start({ secured = false, settings, logFolder } = {}) {
      if (!secured && settings === undefined && (await dockerAnswers(machine.dockerHost)))
        return Object.assign(await startContainer(CONTAINER, logFolder), { security: undefined });
      let security: KafkaSecurity | undefined;
      const prepare = async (folder: string) => {
        const prepared = await prepareKafka(machine, folder, { secured, settings });
        security = prepared.security;
        return prepared.command;
      };
      const running = await startEngine({ name: 'kafka', logFolder, prepare });
      return Object.assign(running, { security });
    },
  };
}

const PORTS = { plain: 9092, controller: 9093 };

/** The same broker in a container: it listens on every address inside, and advertises the one that clients can reach. */
const CONTAINER: ContainerSpec = {
  name: 'kafka',
  image: `apache/kafka:${KAFKA_VERSION}`,
  port: PORTS.plain,
  environment: (address) => ({
    ...environmentOf({
      ...brokerProperties('/tmp', PORTS),
      'controller.quorum.voters': `1@127.0.0.1:${PORTS.controller}`,
      listeners: `PLAINTEXT://0.0.0.0:${PORTS.plain},CONTROLLER://127.0.0.1:${PORTS.controller}`,
      'advertised.listeners': `PLAINTEXT://${address}`,
    }),
    KAFKA_HEAP_OPTS: '-Xms256m -Xmx1g',
  }),
  url: (address) => address,
  isReady: answersKafka,
};

/** In the form that the image expects; it formats the storage itself, for voters and not for bootstrap servers. */
function environmentOf(properties: Properties): Readonly<Record<string, string>> {
  const entries = Object.entries(properties).filter(([key]) => key !== 'controller.quorum.bootstrap.servers');
  return Object.fromEntries(
    entries.map(([key, value]) => [`KAFKA_${key.toUpperCase().replaceAll('.', '_')}`, String(value)]),
  );
}

const BROKERS = [1, 2, 3] as const;

/** Three replicas of everything, two of them required. */
const REPLICATED = {
  'default.replication.factor': 3,
  'min.insync.replicas': 2,
  'offsets.topic.replication.factor': 3,
  'transaction.state.log.replication.factor': 3,
  'transaction.state.log.min.isr': 2,
};

/**
 * Three brokers of one cluster, each also a controller: for tests in which leaders and
 * coordinators move. Each is killed, paused and restarted individually; the caller stops them all.
 */
export async function startKafkaCluster(machine: Machine): Promise<readonly RunningEngine[]> {
  const ports = await Promise.all(
    BROKERS.map(
      async (): Promise<BrokerPorts> => ({ plain: await freePort(), controller: await freePort() }),
    ),
  );
  const id = clusterId();
  const starts = await Promise.allSettled(
    BROKERS.map((node) =>
      startEngine({
        name: `kafka-${node}`,
        logFolder: undefined,
        prepare: (folder) => prepareNode(machine, folder, { id, node, ports }),
      }),
    ),
  );
  const started = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
  const failed = starts.find((start) => start.status === 'rejected');
  if (!failed) return started;
  await Promise.all(started.map((broker) => broker.stop()));
  throw failed.reason;
}

interface Node {
  readonly id: string;
  readonly node: number;
  /** Of all nodes, in order. */
  readonly ports: readonly BrokerPorts[];
}

async function prepareNode(machine: Machine, folder: string, { id, node, ports }: Node): Promise<Command> {
  const { java, classpath } = await kafkaProgram(machine);
  const env = machine.engineEnv;
  const mine = ports[node - 1];
  if (!mine) throw new Error(`no ports for node ${node}`);
  const { 'controller.quorum.bootstrap.servers': _, ...properties } = brokerProperties(folder, mine);
  const voters = ports.map(({ controller }, i) => `${i + 1}@127.0.0.1:${controller}`).join(',');
  const config = join(folder, 'server.properties');
  await writeFile(
    config,
    propertiesText({ ...properties, ...REPLICATED, 'node.id': node, 'controller.quorum.voters': voters }),
  );
  await mkdir(join(folder, 'tmp'));
  const flags = javaFlags(machine, folder);
  const format = ['kafka.tools.StorageTool', 'format', '-t', id, '-c', config];
  await runTool(java, ['-XX:TieredStopAtLevel=1', ...flags, '-cp', classpath, ...format], { env });
  const url = `127.0.0.1:${mine.plain}`;
  return {
    command: java,
    args: [...flags, '-cp', classpath, 'kafka.Kafka', config],
    env,
    url,
    isReady: () => answersKafka(url),
    missing: 'the JDK found has no bin/java',
  };
}

const JAVA: JavaNeed = { engine: 'Kafka', minimum: 17 };

const ARTIFACTS: readonly Artifact[] = [
  { group: 'org.apache.kafka', artifact: 'kafka_2.13', version: KAFKA_VERSION },
  { group: 'org.apache.kafka', artifact: 'kafka-tools', version: KAFKA_VERSION },
  // Without a binding of its logging interface the broker logs nothing.
  { group: 'org.slf4j', artifact: 'slf4j-simple', version: '1.7.36' },
];

const JVM_FLAGS = [
  '-Xms256m',
  '-Xmx1g',
  '-Djava.awt.headless=true',
  '-Dorg.slf4j.simpleLogger.showDateTime=true',
  '-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS',
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=info',
];

/** Flags of a broker with data in `folder`, and of the tools that prepare it. */
function javaFlags(machine: Machine, folder: string): readonly string[] {
  return [`-Djava.io.tmpdir=${join(folder, 'tmp')}`, ...machine.javaFlags, ...JVM_FLAGS];
}

interface PreparedKafka {
  readonly command: Command;
  readonly security: KafkaSecurity | undefined;
}

/** Kafka's jars and a Java to run them; its own console tools need the same. */
export async function kafkaProgram(
  machine: Machine,
): Promise<{ java: string; keytool: string; classpath: string }> {
  const jdk = await needJdk(machine, JAVA);
  const jars = await cachedFolder(machine.cacheFolder, `kafka-${KAFKA_VERSION}`, (folder) =>
    copyArtifacts(ARTIFACTS, folder, machine.env),
  );
  const bin = join(jdk.home, 'bin');
  return { java: join(bin, 'java'), keytool: join(bin, 'keytool'), classpath: join(jars, '*') };
}

/** Formats the storage of one broker below `folder` and returns the command that runs it. */
async function prepareKafka(
  machine: Machine,
  folder: string,
  { secured, settings }: { readonly secured: boolean; readonly settings: Properties | undefined },
): Promise<PreparedKafka> {
  const { java, keytool, classpath } = await kafkaProgram(machine);
  const env = machine.engineEnv;
  const ports = { plain: await freePort(), controller: await freePort() };
  const security = secured ? await secure(keytool, folder, env) : undefined;
  const config = join(folder, 'server.properties');
  const properties = { ...brokerProperties(folder, ports, security?.settings), ...settings };
  await writeFile(config, propertiesText(properties));
  await mkdir(join(folder, 'tmp'));
  const flags = javaFlags(machine, folder);
  const scram = security === undefined ? [] : scramArguments(security.clients.user);
  const format = [
    'kafka.tools.StorageTool',
    'format',
    '--standalone',
    '-t',
    clusterId(),
    '-c',
    config,
    ...scram,
  ];
  await runTool(java, ['-XX:TieredStopAtLevel=1', ...flags, '-cp', classpath, ...format], { env });
  const url = `127.0.0.1:${ports.plain}`;
  return {
    command: {
      command: java,
      args: [...flags, '-cp', classpath, 'kafka.Kafka', config],
      env,
      url,
      isReady: () => answersKafka(url),
      missing: 'the JDK found has no bin/java',
    },
    security: security?.clients,
  };
}

function scramArguments(user: KafkaUser): readonly string[] {
  const mechanisms = ['SCRAM-SHA-256', 'SCRAM-SHA-512'] as const;
  return mechanisms.flatMap((mechanism) => ['--add-scram', scramCredential(mechanism, user)]);
}

async function secure(keytool: string, folder: string, env: Readonly<Record<string, string>>) {
  const ports = { sasl: await freePort(), tls: await freePort(), saslTls: await freePort() };
  const user = { username: 'tributary', password: randomBytes(12).toString('hex') };
  const keystore = { file: join(folder, 'keystore.p12'), password: randomBytes(12).toString('hex') };
  const certificate = join(folder, 'certificate.pem');
  const store = [
    '-keystore',
    keystore.file,
    '-storetype',
    'PKCS12',
    '-storepass',
    keystore.password,
    '-alias',
    'broker',
  ];
  const names = ['-dname', 'CN=localhost', '-ext', 'SAN=IP:127.0.0.1,DNS:localhost', '-ext', 'BC=ca:true'];
  await runTool(
    keytool,
    ['-genkeypair', '-keyalg', 'EC', '-groupname', 'secp256r1', '-validity', '30', ...names, ...store],
    { env },
  );
  await runTool(keytool, ['-exportcert', '-rfc', '-file', certificate, ...store], { env });
  const clients: KafkaSecurity = {
    sasl: `127.0.0.1:${ports.sasl}`,
    tls: `127.0.0.1:${ports.tls}`,
    saslTls: `127.0.0.1:${ports.saslTls}`,
    user,
    ca: await readFile(certificate, 'utf8'),
  };
  return { clients, settings: securedListeners(ports, user, keystore) };
}

/**
 * Sixteen random bytes in URL-safe base64, as Kafka writes ids. An id with a leading dash would be parsed as
 * an option.
 */
function clusterId(): string {
  const id = randomBytes(16).toString('base64url');
  return id.startsWith('-') ? clusterId() : id;
}

interface BrokerPorts {
  readonly plain: number;
  readonly controller: number;
}

/** Settings of a broker by name. */
export type Properties = Readonly<Record<string, string | number | boolean>>;

/** One broker that is its own controller, with few threads and small internal topics: it starts and restarts quickly. */
function brokerProperties(folder: string, ports: BrokerPorts, secured?: SecuredListeners): Properties {
  const listeners = [`PLAINTEXT://127.0.0.1:${ports.plain}`, ...(secured?.listeners ?? [])];
  const controller = `CONTROLLER://127.0.0.1:${ports.controller}`;
  const protocols = ['CONTROLLER:PLAINTEXT', 'PLAINTEXT:PLAINTEXT', ...(secured?.protocols ?? [])];
  return {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.bootstrap.servers': `127.0.0.1:${ports.controller}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    listeners: [...listeners, controller].join(','),
    'advertised.listeners': listeners.join(','),
    'listener.security.protocol.map': protocols.join(','),
    'log.dirs': join(folder, 'data'),
    'auto.create.topics.enable': false,
    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 10,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'transaction.state.log.num.partitions': 10,
    'group.initial.rebalance.delay.ms': 0,
    'group.min.session.timeout.ms': 1_000,
    // A killed broker may register again only when its last session has expired; the partitions of one that is silent for
    // longer lose their leader, which a busy machine must not cause.
    'broker.session.timeout.ms': 6_000,
    'broker.heartbeat.interval.ms': 500,
    'log.segment.bytes': 64 * 1024 * 1024,
    'log.index.size.max.bytes': 1024 * 1024,
    'log.cleaner.dedupe.buffer.size': 4 * 1024 * 1024,
    // A test waits for compaction.
    'log.cleaner.backoff.ms': 1_000,
    'num.network.threads': 2,
    'num.io.threads': 4,
    'background.threads': 2,
    'num.recovery.threads.per.data.dir': 2,
    ...secured?.properties,
  };
}

function propertiesText(properties: Properties): string {
  return Object.entries(properties)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');
}

export type SaslMechanism = 'plain' | 'scram-sha-256' | 'scram-sha-512';

export interface KafkaUser {
  readonly username: string;
  readonly password: string;
}

/** Access of clients to the listeners beside the plain one. */
export interface KafkaSecurity {
  /** `host:port` of each. */
  readonly sasl: string;
  readonly tls: string;
  readonly saslTls: string;
  /** A user of every mechanism. */
  readonly user: KafkaUser;
  /** The PEM text that verifies the certificate of the TLS listeners, for 127.0.0.1 and localhost. */
  readonly ca: string;
}

interface SecuredPorts {
  readonly sasl: number;
  readonly tls: number;
  readonly saslTls: number;
}

interface Keystore {
  readonly file: string;
  readonly password: string;
}

/** The parts of the broker's settings that its secured listeners add. */
interface SecuredListeners {
  readonly listeners: readonly string[];
  readonly protocols: readonly string[];
  readonly properties: Properties;
}

const SASL_LISTENERS = ['sasl', 'sasl_tls'];
const MECHANISMS: readonly SaslMechanism[] = ['plain', 'scram-sha-256', 'scram-sha-512'];

function securedListeners(ports: SecuredPorts, user: KafkaUser, keystore: Keystore): SecuredListeners {
  const jaas = SASL_LISTENERS.flatMap((listener) =>
    MECHANISMS.map((mechanism) => [
      `listener.name.${listener}.${mechanism}.sasl.jaas.config`,
      jaasOf(mechanism, user),
    ]),
  );
  return {
    listeners: [
      `SASL://127.0.0.1:${ports.sasl}`,
      `TLS://127.0.0.1:${ports.tls}`,
      `SASL_TLS://127.0.0.1:${ports.saslTls}`,
    ],
    protocols: ['SASL:SASL_PLAINTEXT', 'TLS:SSL', 'SASL_TLS:SASL_SSL'],
    properties: {
      'sasl.enabled.mechanisms': MECHANISMS.map((mechanism) => mechanism.toUpperCase()).join(','),
      ...Object.fromEntries(jaas),
      'ssl.keystore.type': 'PKCS12',
      'ssl.keystore.location': keystore.file,
      'ssl.keystore.password': keystore.password,
      'ssl.key.password': keystore.password,
    },
  };
}

/** The argument of the storage formatter that registers a user for a SCRAM mechanism. */
function scramCredential(mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-512', user: KafkaUser): string {
  return `${mechanism}=[name=${user.username},password=${user.password}]`;
}

function jaasOf(mechanism: SaslMechanism, { username, password }: KafkaUser): string {
  if (mechanism !== 'plain') return 'org.apache.kafka.common.security.scram.ScramLoginModule required;';
  return `org.apache.kafka.common.security.plain.PlainLoginModule required user_${username}="${password}";`;
}

const TIMEOUT_MS = 1_000;
const METADATA = 3;
/** The oldest version that brokers of every release in use support. */
const METADATA_VERSION = 4;

/** True once the broker answers clients and lists itself among the brokers of the cluster. */
async function answersKafka(broker: string): Promise<boolean> {
  const { hostname, port } = new URL(`kafka://${broker}`);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no answer to a metadata request')));
  try {
    socket.write(metadataOfNoTopic());
    const [answer] = await once(socket, 'data');
    return countBrokers(answer) > 0;
  } finally {
    socket.destroy();
  }
}

function metadataOfNoTopic(): Buffer {
  const request = Buffer.alloc(19);
  request.writeInt32BE(15, 0); // length
  request.writeInt16BE(METADATA, 4);
  request.writeInt16BE(METADATA_VERSION, 6);
  request.writeInt32BE(1, 8); // correlation id
  request.writeInt16BE(-1, 12); // no client id
  request.writeInt32BE(0, 14); // no topics
  request.writeInt8(0, 18); // create none
  return request;
}

/** After the length, the correlation id and the throttle time comes the array of brokers. */
function countBrokers(answer: unknown): number {
  return Buffer.isBuffer(answer) && answer.length >= 16 ? answer.readInt32BE(12) : 0;
}
