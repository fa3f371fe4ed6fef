import { dockerAnswers } from '../docker/docker-answers.ts';
import { type ContainerSpec, startContainer } from '../docker/docker-engine.ts';
import type { Engine } from '../engine.ts';
import type { Machine } from '../machine.ts';
import { answersHttp } from '../native/answers-http.ts';
import { type Command, startNative } from '../native/native-engine.ts';
import { freePort } from '../native/ports.ts';
import { nodeArguments, prepareHome } from './node.ts';
import { elasticsearchProgram } from './program.ts';
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
