import { rm } from 'node:fs/promises';
import { Client } from './client.ts';
import type { Tributary } from './running-tributary.ts';
import { scrape } from './scrape.ts';
import { ServerProcess } from './server-process.ts';

/** Half of the processes for transformations: to start one takes a third of a second of a processor. */
export const FRUGAL = { TRIBUTARY_SANDBOX_PROCESSES: '1' } as const;
/** As many as there are by default, for a test in which one transformation may hold others up. */
export const AS_SHIPPED = { TRIBUTARY_SANDBOX_PROCESSES: '2' } as const;

/** `tributary dev`. Reads what a person would: the lines printed once it is ready. */
export async function startEmbedded(
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<Tributary> {
  const environment = { TRIBUTARY_DATA_DIR: folder, ...FRUGAL, ...env };
  const server = new ServerProcess(['dev'], environment);
  try {
    await server.printed(/Stop with Ctrl-C/);
  } catch (error) {
    await server.kill();
    throw error;
  }
  const found = (pattern: RegExp) => pattern.exec(server.output)?.[1] ?? '';
  const url = found(/ready at (\S+)/);
  const adminUrl = found(/admin port\s+(\S+)/);
  const workspaceId = found(/workspace\s+(\S+)/);
  const writeKey = found(/write key\s+(\S+)/);
  const idToken = found(/ID token\s+(\S+)/);
  const owner = new Client(url, idToken, workspaceId);
  return {
    url,
    adminUrl,
    folder,
    environment,
    pid: server.pid,
    workspaceId,
    writeKey,
    idToken,
    owner,
    producer: owner.with({ token: writeKey }),
    log: () => server.log,
    metrics: () => scrape(adminUrl),
    kill: () => server.kill(),
    stop: () => server.stop(),
    async remove() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
