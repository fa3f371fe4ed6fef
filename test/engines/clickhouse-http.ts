import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';

/*
 * ClickHouse's own engine, as the package `chdb` has it, behind as much of its HTTP interface as the client uses: statements,
 * parameters, settings, formats and errors. Started as a process with the folder of the package, a folder for data, a port and a
 * password. As in a server, a statement goes on although its connection ends.
 */

interface Session {
  queryAsync(sql: string, options: { readonly format: string }): Promise<Result>;
  queryBindAsync(
    sql: string,
    values: Readonly<Record<string, string>>,
    options: { readonly format: string },
  ): Promise<Result>;
}

interface Result {
  bytes(): Uint8Array;
}

interface Chdb {
  readonly Session: new (folder: string) => Session;
}

/** Statements at a time; further ones wait. */
const SESSIONS = 6;
/** Parameters of a request that are no settings. */
const NO_SETTINGS = new Set([
  'query',
  'query_id',
  'database',
  'default_format',
  'session_id',
  'role',
  'wait_end_of_query',
]);

const [packages = '', data = '', port = '', password = ''] = process.argv.slice(2);
const { Session } = createRequire(`${packages}/`)('chdb') as Chdb;

/** A session has its settings until they are set to others. */
class Worker {
  readonly #session = new Session(data);
  #settings = '';
  #last: Promise<unknown> = Promise.resolve();
  waiting = 0;

  async run(sql: string, values: ReadonlyMap<string, string>, settings: string): Promise<Uint8Array> {
    this.waiting += 1;
    const run = this.#last.then(async () => {
      if (settings !== this.#settings) await this.#session.queryAsync(settings, { format: 'TSV' });
      this.#settings = settings;
      const options = { format: 'TSV' };
      const result =
        values.size === 0
          ? await this.#session.queryAsync(sql, options)
          : await this.#session.queryBindAsync(sql, Object.fromEntries(values), options);
      return result.bytes();
    });
    this.#last = run.catch(() => undefined);
    try {
      return await run;
    } finally {
      this.waiting -= 1;
    }
  }
}

const workers = Array.from({ length: SESSIONS }, () => new Worker());

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** As values are escaped in the parameters of a request. */
function unescaped(text: string): string {
  const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', 0: '\0', b: '\b', f: '\f' };
  return text.replace(/\\(.)/gs, (_, letter: string) => escapes[letter] ?? letter);
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://localhost');
  if (url.pathname === '/ping') {
    response.end('Ok.\n');
    return;
  }
  const login = Buffer.from(
    String(request.headers.authorization).replace(/^Basic /, ''),
    'base64',
  ).toString();
  if (login !== `default:${password}`) {
    request.resume();
    refuse(response, 403, 516, 'default: Authentication failed. (AUTHENTICATION_FAILED)');
    return;
  }
  const body = await bodyOf(request);
  const query = url.searchParams.get('query');
  const sql = query === null ? body : `${query}\n${body}`;
  const values = new Map<string, string>();
  const settings: string[] = [];
  for (const [name, value] of url.searchParams) {
    if (name.startsWith('param_')) values.set(name.slice('param_'.length), unescaped(value));
    else if (!NO_SETTINGS.has(name)) settings.push(`${name} = '${value.replaceAll("'", "\\'")}'`);
  }
  const [worker] = [...workers].sort((one, other) => one.waiting - other.waiting);
  try {
    const set = settings.length === 0 ? 'set max_threads = 2' : `set ${settings.join(', ')}`;
    const bytes = await worker?.run(sql, values, set);
    response.setHeader('x-clickhouse-summary', '{"written_rows":"0"}');
    response.end(bytes);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const [, code = '0'] = /Code: (\d+)/.exec(message) ?? [];
    const at = message.lastIndexOf('DB::Exception: ');
    refuse(response, 500, Number(code), at === -1 ? message : message.slice(at + 'DB::Exception: '.length));
  }
}

function refuse(response: ServerResponse, status: number, code: number, message: string): void {
  response.writeHead(status, { 'x-clickhouse-exception-code': String(code) });
  response.end(`Code: ${code}. DB::Exception: ${message} (version 26.7.2.1)\n`);
}

const server = createServer((request, response) => {
  response.on('error', () => undefined);
  answer(request, response).catch(() => response.destroy());
});
server.keepAliveTimeout = 30_000;
server.listen(Number(port), '127.0.0.1');
