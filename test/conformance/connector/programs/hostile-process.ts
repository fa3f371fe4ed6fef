/** Serves hostile destinations in a separate process, so that their own cost is not measured. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import {
  COSTLY_ENDPOINTS,
  HOSTILE_ENDPOINTS,
  type HostileEndpoint,
  startServer,
} from './hostile-endpoints.ts';

export interface ServedEndpoint {
  readonly endpoint: HostileEndpoint;
  readonly port: number;
}

/** Starts one of each kind, and `each` of the servers that demand the maximum of work. */
export async function serveEndpoints(each: number) {
  const child = fork(fileURLToPath(import.meta.url), [String(each)], {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [ports] = (await once(child, 'message')) as [readonly number[]];
  return {
    endpoints: endpointsOf(each).map((endpoint, at): ServedEndpoint => ({ endpoint, port: ports[at] ?? 0 })),
    async close() {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function endpointsOf(each: number): readonly HostileEndpoint[] {
  const oneOfEach = new Map(HOSTILE_ENDPOINTS.map((endpoint) => [endpoint.type, endpoint]));
  return [...oneOfEach.values(), ...COSTLY_ENDPOINTS].flatMap((endpoint) =>
    Array<HostileEndpoint>(each).fill(endpoint),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const servers = await Promise.all(
    endpointsOf(Number(process.argv[2])).map(({ serve }) => startServer(serve)),
  );
  process.send?.(servers.map(({ port }) => port));
  process.on('disconnect', () => process.exit());
}
