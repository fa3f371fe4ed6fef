import { request } from 'node:http';

const TIMEOUT_MS = 1_000;

/** Whether a Docker engine answers at `unix://<socket>` or `tcp://<host>:<port>`. */
export function dockerAnswers(dockerHost: string): Promise<boolean> {
  const { protocol, hostname, port, pathname } = new URL(dockerHost);
  const where = protocol === 'unix:' ? { socketPath: pathname } : { host: hostname, port };
  return new Promise((resolve) => {
    const ping = request({ ...where, path: '/_ping', timeout: TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    ping.once('timeout', () => ping.destroy());
    ping.once('close', () => resolve(false)); // no effect after an answer
    ping.once('error', () => resolve(false));
    ping.end();
  });
}
