import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type ContainerSpec, dockerAnswers, startContainer } from './containers.ts';
import type { Engine } from './engine.ts';
import { answersHttp, type Command, freePort, startEngine } from './engine-process.ts';
import { COMPILED_PLAINLY, type Machine } from './machine.ts';
import { type Artifact, cachedFolder, copyArtifacts, type JavaNeed, needJdk, runTool } from './programs.ts';

const REGISTRY_VERSION = '3.3.3';
const JAVA: JavaNeed = { engine: 'The schema registry', minimum: 21 };
/** The path of the registry's Confluent API. */
const CONFLUENT_PATH = '/apis/ccompat/v7';

const ARTIFACT: Artifact = {
  group: 'io.apicurio',
  artifact: 'apicurio-registry-app',
  version: REGISTRY_VERSION,
  type: 'tar.gz',
  classifier: 'all',
};

const CONTAINER: ContainerSpec = {
  name: 'schema-registry',
  image: `apicurio/apicurio-registry:${REGISTRY_VERSION}`,
  port: 8080,
  url: (address) => `http://${address}${CONFLUENT_PATH}`,
  isReady: (address) => answersHttp(`http://${address}${CONFLUENT_PATH}/subjects`),
};

/**
 * Apicurio's registry with in-memory storage: a restart loses its schemas. `url` serves Confluent's protocol.
 */
export function schemaRegistryEngine(machine: Machine): Engine<object> {
  return {
    name: 'schema-registry',
    async start({ logFolder } = {}) {
      if (await dockerAnswers(machine.dockerHost)) return startContainer(CONTAINER, logFolder);
      const prepare = (folder: string) => prepareRegistry(machine, folder);
      return startEngine({ name: 'schema-registry', logFolder, prepare });
    },
  };
}

async function prepareRegistry(machine: Machine, folder: string): Promise<Command> {
  const jdk = await needJdk(machine, JAVA);
  const program = await cachedFolder(machine.cacheFolder, `apicurio-registry-${REGISTRY_VERSION}`, (cached) =>
    download(machine, cached),
  );
  const port = await freePort();
  await mkdir(join(folder, 'tmp'));
  const flags = [...machine.javaFlags, '-Xmx400m', ...COMPILED_PLAINLY];
  const settings = {
    'java.io.tmpdir': join(folder, 'tmp'),
    'quarkus.http.host': '127.0.0.1',
    'quarkus.http.port': port,
    'quarkus.management.host': '127.0.0.1',
    'quarkus.management.port': 0, // unused: any port
  };
  const properties = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
  const url = `http://127.0.0.1:${port}${CONFLUENT_PATH}`;
  return {
    command: join(jdk.home, 'bin', 'java'),
    args: [...flags, ...properties, '-jar', join(program, 'quarkus-run.jar')],
    url,
    env: machine.engineEnv,
    isReady: () => answersHttp(`${url}/subjects`),
    missing: 'the JDK found has no bin/java',
  };
}

async function download(machine: Machine, folder: string): Promise<void> {
  await copyArtifacts([ARTIFACT], folder, machine.env);
  const { artifact, version } = ARTIFACT;
  const archive = join(folder, `${artifact}-${version}-all.tar.gz`);
  await runTool('tar', ['-xzf', archive, '-C', folder], {
    env: machine.env,
    missing: 'install tar and gzip',
  });
  await rm(archive);
}
