import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below the range of outgoing ports: otherwise a client that retries while its engine is down could get the
 * engine's own port, connect to itself and block the engine's restart.
 */
const LOWEST = 15_000;
const HIGHEST = 31_999;
const TRIES = 200;

const given = new Set<number>();

/** An unused port of 127.0.0.1; each call returns another one. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no free port found between ${LOWEST} and ${HIGHEST}`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
