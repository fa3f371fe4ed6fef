import type { Engine } from '../engine.ts';
import type { Machine } from '../machine.ts';
import { answersHttp } from '../native/answers-http.ts';
import { type Command, startNative } from '../native/native-engine.ts';
import { freePort } from '../native/ports.ts';
import { nodeArguments, prepareHome } from './node.ts';
import { elasticsearchProgram } from './program.ts';

/** One Elasticsearch node without security. `url` is where it speaks HTTP. */
export function elasticsearchEngine(machine: Machine): Engine<object> {
  const name = 'elasticsearch';
  return {
    name,
    start: ({ logFolder } = {}) =>
      startNative({ name, logFolder, prepare: (folder) => prepareNode(machine, folder) }),
  };
}

async function prepareNode(machine: Machine, folder: string): Promise<Command> {
  const program = await elasticsearchProgram(machine);
  const ports = { http: await freePort(), transport: await freePort() };
  await prepareHome(folder, program, ports);
  const url = `http://127.0.0.1:${ports.http}`;
  return {
    command: program.java,
    args: nodeArguments(folder, program),
    url,
    env: machine.engineEnv,
    isReady: () => answersHttp(`${url}/_cluster/health?wait_for_status=yellow&timeout=1s`),
    missing: 'the JDK found has no bin/java',
  };
}
