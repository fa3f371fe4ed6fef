import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ContainerSpec, dockerAnswers, startContainer } from './containers.ts';
import type { Engine } from './engine.ts';
import { answersHttp, type Command, freePort, startEngine } from './engine-process.ts';
import type { Machine } from './machine.ts';
import { type Artifact, cachedFolder, copyArtifacts, type JavaNeed, needJdk, runTool } from './programs.ts';

const ELASTICSEARCH_VERSION = '9.5.3';

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
      return startEngine({ name, logFolder, prepare: (folder) => prepareNode(machine, folder) });
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

const JAVA: JavaNeed = { engine: 'Elasticsearch', minimum: 21 };
const TRANSPORT = 'transport-netty4';
const SOURCE = fileURLToPath(new URL('./EmbeddedNode.java', import.meta.url));
/** Increment it whenever the folder's layout changes. */
const LAYOUT = 2;

const ARTIFACTS: readonly Artifact[] = [
  { group: 'org.elasticsearch', artifact: 'elasticsearch', version: ELASTICSEARCH_VERSION },
  { group: 'org.elasticsearch.plugin', artifact: TRANSPORT, version: ELASTICSEARCH_VERSION },
];

/** A compiler that runs on a plain Java runtime: not every machine has a JDK. */
const COMPILER: Artifact = { group: 'org.eclipse.jdt', artifact: 'ecj', version: '3.43.0' };

/** As in the jar of the transport, except for the name of its module: it is loaded from a class path. */
const DESCRIPTOR = `description=Netty 4 based transport implementation
name=${TRANSPORT}
version=${ELASTICSEARCH_VERSION}
elasticsearch.version=${ELASTICSEARCH_VERSION}
java.version=${JAVA.minimum}
classname=org.elasticsearch.transport.netty4.Netty4Plugin
`;

/**
 * The shared library with the best compression of stored documents, in the paths of Debian, Fedora and Arch.
 */
const ZSTD = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib'].map(
  (folder) => join(folder, 'libzstd.so.1'),
);

/** The parts of a node's home folder. */
interface ElasticsearchProgram {
  readonly java: string;
  readonly lib: string;
  readonly modules: string;
  /** Holds the compiled `EmbeddedNode`. */
  readonly launcher: string;
}

async function elasticsearchProgram(machine: Machine): Promise<ElasticsearchProgram> {
  const java = join((await needJdk(machine, JAVA)).home, 'bin', 'java');
  const name = `elasticsearch-${ELASTICSEARCH_VERSION}-${LAYOUT}`;
  const home = await cachedFolder(machine.cacheFolder, name, (folder) => assemble(machine, folder));
  const lib = join(home, 'lib');
  return { java, lib, modules: join(home, 'modules'), launcher: await compiled(machine, java, lib) };
}

/** The folder of the launcher's class, compiled when its source has changed. */
async function compiled(machine: Machine, java: string, lib: string): Promise<string> {
  const source = createHash('sha256')
    .update(await readFile(SOURCE))
    .digest('hex')
    .slice(0, 12);
  const { cacheFolder, env, engineEnv } = machine;
  const compiler = await cachedFolder(cacheFolder, `ecj-${COMPILER.version}`, (folder) =>
    copyArtifacts([COMPILER], folder, env),
  );
  const name = `elasticsearch-launcher-${ELASTICSEARCH_VERSION}-${source}`;
  return cachedFolder(cacheFolder, name, async (folder) => {
    const jars = (await readdir(lib)).filter((file) => file.endsWith('.jar'));
    const classpath = jars.map((jar) => join(lib, jar)).join(':');
    const main = 'org.eclipse.jdt.internal.compiler.batch.Main';
    const options = [`-${JAVA.minimum}`, '-proc:none', '-nowarn', '-classpath', classpath, '-d', folder];
    await runTool(java, ['-cp', join(compiler, '*'), main, ...options, SOURCE], { env: engineEnv });
  });
}

/** `lib/` holds the server; the transport and its network library are a separate module. */
async function assemble(machine: Machine, home: string): Promise<void> {
  const lib = join(home, 'lib');
  const module = join(home, 'modules', TRANSPORT);
  await mkdir(module, { recursive: true });
  await copyArtifacts(ARTIFACTS, lib, machine.env);
  const ofModule = (jar: string) => jar.startsWith('netty-') || jar.startsWith(TRANSPORT);
  for (const jar of (await readdir(lib)).filter(ofModule)) await rename(join(lib, jar), join(module, jar));
  await writeFile(join(module, 'plugin-descriptor.properties'), DESCRIPTOR);
  await linkZstd(lib);
}

/** Without it, stored documents use another compression, and the node logs a warning. */
async function linkZstd(lib: string): Promise<void> {
  const platform = join(lib, 'platform', process.arch === 'arm64' ? 'linux-aarch64' : 'linux-x64');
  await mkdir(platform, { recursive: true });
  for (const file of ZSTD) {
    const found = await access(file).then(
      () => true,
      () => false,
    );
    if (found) return symlink(file, join(platform, 'libzstd.so'));
  }
}
