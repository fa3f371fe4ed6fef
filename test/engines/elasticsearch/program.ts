import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Machine } from '../machine.ts';
import { cachedFolder } from '../native/cache.ts';
import { type JavaNeed, needJdk } from '../native/jdk.ts';
import { type Artifact, copyArtifacts } from '../native/maven.ts';
import { runTool } from '../native/run-tool.ts';
import { ELASTICSEARCH_VERSION } from './version.ts';

const JAVA: JavaNeed = { engine: 'Elasticsearch', minimum: 21 };
const TRANSPORT = 'transport-netty4';
const SOURCE = fileURLToPath(new URL('EmbeddedNode.java', import.meta.url));
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
export interface ElasticsearchProgram {
  readonly java: string;
  readonly lib: string;
  readonly modules: string;
  /** Holds the compiled `EmbeddedNode`. */
  readonly launcher: string;
}

export async function elasticsearchProgram(machine: Machine): Promise<ElasticsearchProgram> {
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
