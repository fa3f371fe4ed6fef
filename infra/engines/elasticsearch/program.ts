import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Machine } from '../machine.ts';
import { cachedFolder } from '../native/cache.ts';
import { type JavaNeed, type Jdk, needJdk } from '../native/jdk.ts';
import { type Artifact, copyArtifacts } from '../native/maven.ts';
import { runTool } from '../native/run-tool.ts';
import { ELASTICSEARCH_VERSION } from './version.ts';

const JAVA: JavaNeed = { engine: 'Elasticsearch', minimum: 21, program: 'javac' };
const TRANSPORT = 'transport-netty4';
const SOURCE = fileURLToPath(new URL('EmbeddedNode.java', import.meta.url));

const ARTIFACTS: readonly Artifact[] = [
  { group: 'org.elasticsearch', artifact: 'elasticsearch', version: ELASTICSEARCH_VERSION },
  { group: 'org.elasticsearch.plugin', artifact: TRANSPORT, version: ELASTICSEARCH_VERSION },
];

/** The shared library that compresses stored documents best, where Debian, Fedora and Arch keep it. */
const ZSTD = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib'].map(
  (folder) => join(folder, 'libzstd.so.1'),
);

/** What a node's home folder is assembled from. */
export interface ElasticsearchProgram {
  readonly java: string;
  readonly lib: string;
  readonly modules: string;
  /** Holds the compiled `EmbeddedNode`. */
  readonly launcher: string;
}

export async function elasticsearchProgram(machine: Machine): Promise<ElasticsearchProgram> {
  const jdk = await needJdk(machine, JAVA);
  const { cacheFolder } = machine;
  const home = await cachedFolder(cacheFolder, `elasticsearch-${ELASTICSEARCH_VERSION}`, (folder) =>
    assemble(machine, jdk, folder),
  );
  const lib = join(home, 'lib');
  const source = createHash('sha256')
    .update(await readFile(SOURCE))
    .digest('hex')
    .slice(0, 12);
  const name = `elasticsearch-launcher-${ELASTICSEARCH_VERSION}-${source}`;
  const launcher = await cachedFolder(cacheFolder, name, (folder) =>
    runTool(
      join(jdk.home, 'bin', 'javac'),
      ['--release', String(JAVA.minimum), '-cp', join(lib, '*'), '-d', folder, SOURCE],
      {
        env: machine.engineEnv,
      },
    ),
  );
  return { java: join(jdk.home, 'bin', 'java'), lib, modules: join(home, 'modules'), launcher };
}

/** `lib/` holds the server; the transport and its network library are a module of their own. */
async function assemble(machine: Machine, jdk: Jdk, home: string): Promise<void> {
  const lib = join(home, 'lib');
  const module = join(home, 'modules', TRANSPORT);
  await mkdir(module, { recursive: true });
  await copyArtifacts(ARTIFACTS, lib, machine.env);
  const ofModule = (jar: string) => jar.startsWith('netty-') || jar.startsWith(TRANSPORT);
  for (const jar of (await readdir(lib)).filter(ofModule)) await rename(join(lib, jar), join(module, jar));
  await extractDescriptor(machine, jdk, module);
  await linkZstd(lib);
}

async function extractDescriptor(machine: Machine, jdk: Jdk, module: string): Promise<void> {
  const name = 'plugin-descriptor.properties';
  const inside = `META-INF/es-plugins/${TRANSPORT}/${name}`;
  const jar = `${TRANSPORT}-${ELASTICSEARCH_VERSION}.jar`;
  const options = { env: machine.engineEnv, cwd: module };
  await runTool(join(jdk.home, 'bin', 'jar'), ['--extract', '--file', jar, inside], options);
  await rename(join(module, inside), join(module, name));
  await rm(join(module, 'META-INF'), { recursive: true });
}

/** Without it stored documents are compressed in another way, and a warning says so. */
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
