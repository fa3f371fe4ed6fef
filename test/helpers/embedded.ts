import { rm } from 'node:fs/promises';
import { Client } from './client.ts';
import { scrape, type Tributary } from './running-tributary.ts';
import { ServerProcess } from './server-process.ts';

/** Half of the transformation processes: starting one takes a third of a second of processor time. */
export const FRUGAL = { TRIBUTARY_SANDBOX_PROCESSES: '1' } as const;
/** The default number, for a test in which one transformation may delay others. */
export const AS_SHIPPED = { TRIBUTARY_SANDBOX_PROCESSES: '2' } as const;

/** The values that `tributary dev` printed for a person. */
export function welcomed(output: string) {
  const found = (pattern: RegExp) => pattern.exec(output)?.[1] ?? '';
  return {
    url: found(/ready at (\S+)/),
    adminUrl: found(/admin port\s+(\S+)/),
    workspaceId: found(/workspace\s+(\S+)/),
    writeKey: found(/write key\s+(\S+)/),
    consoleLink: found(/(\S+\/console\/#secret=\S+)/),
    idToken: found(/ID token\s+(\S+)/),
  };
}

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
  const { url, adminUrl, workspaceId, writeKey, consoleLink, idToken } = welcomed(server.output);
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
      await server.end();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
