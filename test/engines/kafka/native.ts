import { randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Machine } from '../machine.ts';
import { cachedFolder } from '../native/cache.ts';
import { type JavaNeed, needJdk } from '../native/jdk.ts';
import { type Artifact, copyArtifacts } from '../native/maven.ts';
import type { Command } from '../native/native-engine.ts';
import { freePort } from '../native/ports.ts';
import { runTool } from '../native/run-tool.ts';
import { answersKafka } from './answers.ts';
import { brokerProperties, type Properties, propertiesText } from './properties.ts';
import {
  type KafkaSecurity,
  type KafkaUser,
  scramCredential,
  securedListeners,
} from './secured-listeners.ts';
import { KAFKA_VERSION } from './version.ts';

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
export function javaFlags(machine: Machine, folder: string): readonly string[] {
  return [`-Djava.io.tmpdir=${join(folder, 'tmp')}`, ...machine.javaFlags, ...JVM_FLAGS];
}

export interface PreparedKafka {
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
export async function prepareKafka(
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
export function clusterId(): string {
  const id = randomBytes(16).toString('base64url');
  return id.startsWith('-') ? clusterId() : id;
}
