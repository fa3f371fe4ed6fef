import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { dockerAnswers } from '../docker/docker-answers.ts';
import { type ContainerSpec, startContainer } from '../docker/docker-engine.ts';
import type { Engine } from '../engine.ts';
import type { Machine } from '../machine.ts';
import { answersHttp } from '../native/answers-http.ts';
import { type Command, startNative } from '../native/native-engine.ts';
import { freePort } from '../native/ports.ts';
import { type ElasticsearchProgram, elasticsearchProgram } from './program.ts';
import { ELASTICSEARCH_VERSION } from './version.ts';

const CONTAINER: ContainerSpec = {
  name: 'elasticsearch',
  image: `elasticsearch:${ELASTICSEARCH_VERSION}`,
  port: 9200,
  environment: () => ({
    'discovery.type': 'single-node',
    'xpack.security.enabled': 'false',
    'path.repo': '/tmp/snapshots',
    'cluster.routing.allocation.disk.threshold_enabled': 'false',
    ES_JAVA_OPTS: '-Xms256m -Xmx512m',
  }),
  url: (address) => `http://${address}`,
  isReady: (address) => isHealthy(`http://${address}`),
};

function isHealthy(url: string): Promise<boolean> {
  return answersHttp(`${url}/_cluster/health?wait_for_status=yellow&timeout=1s`);
}

/** One Elasticsearch node without security. `url` is its HTTP address. */
export function elasticsearchEngine(machine: Machine): Engine<object> {
  const { name } = CONTAINER;
  return {
    name,
    async start({ logFolder } = {}) {
      if (await dockerAnswers(machine.dockerHost)) return startContainer(CONTAINER, logFolder);
      return startNative({ name, logFolder, prepare: (folder) => prepareNode(machine, folder) });
    },
  };
}

async function prepareNode(machine: Machine, folder: string): Promise<Command> {
  const program = await elasticsearchProgram(machine);
  const ports = { http: await freePort(), transport: await freePort() };
  await prepareHome(folder, program, ports);
  const url = `http://127.0.0.1:${ports.http}`;
  return {
    command: program.java,
    args: nodeArguments(folder, program, machine.javaFlags),
    url,
    env: machine.engineEnv,
    isReady: () => isHealthy(url),
    missing: 'the Java found has no bin/java',
  };
}

/**
 * Everything is on the class path, as in Elasticsearch's own tests. As modules it would require a complete
 * JDK, and packaged runtimes are not complete.
 */
const JVM_FLAGS = [
  '-Xms256m',
  '-Xmx512m',
  '--add-modules=jdk.net,jdk.management.agent',
  '--enable-native-access=ALL-UNNAMED',
  '--add-opens=java.base/java.io=ALL-UNNAMED',
];

const PROPERTIES = {
  'log4j.shutdownHookEnabled': false,
  'log4j2.disable.jmx': true,
  'io.netty.noUnsafe': true,
  'io.netty.noKeySetOptimization': true,
  'io.netty.recycler.maxCapacityPerThread': 0,
  'java.awt.headless': true,
  // The native vector library is only part of the full distribution.
  'org.elasticsearch.nativeaccess.enableVectorLibrary': false,
};

const LOGGING = `status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %-5level %logger{1.} %message%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
`;

interface NodePorts {
  readonly http: number;
  readonly transport: number;
}

/** Lays out a node's home: the program by links, its configuration, and a data folder. */
async function prepareHome(home: string, program: ElasticsearchProgram, ports: NodePorts): Promise<void> {
  await mkdir(join(home, 'config'));
  await mkdir(join(home, 'tmp'));
  await symlink(program.lib, join(home, 'lib'));
  await symlink(program.modules, join(home, 'modules'));
  await writeFile(join(home, 'config', 'elasticsearch.yml'), configuration(home, ports));
  await writeFile(join(home, 'config', 'log4j2.properties'), LOGGING);
}

function configuration(home: string, { http, transport }: NodePorts): string {
  const settings = {
    // A repository of snapshots may lie below.
    'path.repo': join(home, 'snapshots'),
    'discovery.type': 'single-node',
    'network.host': '127.0.0.1',
    'http.port': http,
    'transport.port': transport,
    // A nearly full disk of a developer must not make indices read-only.
    'cluster.routing.allocation.disk.threshold_enabled': false,
  };
  return Object.entries(settings)
    .map(([name, value]) => `${name}: ${value}\n`)
    .join('');
}

function nodeArguments(
  home: string,
  program: ElasticsearchProgram,
  javaFlags: readonly string[],
): readonly string[] {
  const properties = { 'es.path.home': home, 'java.io.tmpdir': join(home, 'tmp'), ...PROPERTIES };
  return [
    ...javaFlags,
    ...JVM_FLAGS,
    ...Object.entries(properties).map(([name, value]) => `-D${name}=${value}`),
    '-cp',
    `${program.launcher}:${join(program.lib, '*')}`,
    'EmbeddedNode',
    home,
  ];
}
