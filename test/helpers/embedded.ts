import { rm } from 'node:fs/promises';
import { Client } from './client.ts';
import type { Tributary } from './running-tributary.ts';
import { scrape } from './scrape.ts';
import { ServerProcess } from './server-process.ts';

/** Half of the transformation processes: starting one takes a third of a second of processor time. */
export const FRUGAL = { TRIBUTARY_SANDBOX_PROCESSES: '1' } as const;
/** The default number, for a test in which one transformation may delay others. */
export const AS_SHIPPED = { TRIBUTARY_SANDBOX_PROCESSES: '2' } as const;

/** `tributary dev`. Reads the lines that it prints for a person once it is ready. `main` is of another checkout. */
export async function startEmbedded(
  folder: string,
  env: Readonly<Record<string, string>>,
  main?: string,
): Promise<Tributary & { readonly consoleLink: string }> {
  const environment = { TRIBUTARY_DATA_DIR: folder, ...FRUGAL, ...env };
  const server = new ServerProcess(['dev'], environment, main);
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
  const consoleLink = found(/(\S+\/console\/#secret=\S+)/);
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
    consoleLink,
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
