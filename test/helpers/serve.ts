import { randomBytes } from 'node:crypto';
import { Client } from './client.ts';
import { FRUGAL } from './embedded.ts';
import { ranHere } from './run-cli.ts';
import { ServerProcess } from './server-process.ts';

/** The environment of `tributary serve` on a data folder, with API keys alone unless `env` names issuers. */
export function serveEnvironment(
  folder: string,
  env: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  return {
    TRIBUTARY_DATA_DIR: folder,
    TRIBUTARY_ISSUERS: 'none',
    TRIBUTARY_SECRET_KEYS: `k1:${randomBytes(32).toString('base64')}`,
    ...FRUGAL,
    ...env,
  };
}

export interface Serving {
  readonly server: ServerProcess;
  readonly url: string;
  readonly adminUrl: string;
}

/** `tributary serve`, once it is ready. */
export async function startServing(environment: Readonly<Record<string, string>>): Promise<Serving> {
  const server = new ServerProcess(['serve'], environment);
  try {
    const [, url = '', adminUrl = ''] = await server.printed(
      /serve ready at (\S+) \(metrics and readiness at (\S+);/,
    );
    return { server, url, adminUrl };
  } catch (error) {
    await server.kill();
    throw error;
  }
}

/** The output of `tributary admin init --json`. */
export interface Initialized {
  readonly organization: { readonly id: string; readonly org_id: number; readonly changed: boolean };
  readonly workspace: { readonly id: string; readonly changed: boolean };
  readonly owner: { readonly email: string; readonly role: string; readonly status: string } | null;
  readonly api_key: { readonly id: string; readonly key: string | null; readonly key_prefix: string };
}

/** Runs a command of `tributary admin` with `--json`, which must succeed. */
export async function admin<Printed>(
  environment: Readonly<Record<string, string>>,
  ...words: readonly string[]
): Promise<Printed> {
  const { code, output, log } = await ranHere(['admin', ...words, '--json'], environment);
  if (code !== 0) throw new Error(`admin ${words.join(' ')} ended with ${code}: ${log}`);
  return JSON.parse(output) as Printed;
}

/** A client with the API key of an installation, and a producer with a write key that it made. */
export async function clientsOf(
  url: string,
  { workspace, api_key }: Initialized,
): Promise<{ readonly operator: Client; readonly producer: Client }> {
  const operator = new Client(url, api_key.key ?? '', workspace.id);
  const wanted = { name: 'producer', environment: 'production' };
  const { key } = await operator.post<{ key: string }>('./event-keys', wanted);
  return { operator, producer: operator.with({ token: key }) };
}
