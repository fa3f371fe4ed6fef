import { readFile, writeFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { type Environment, readApiKey } from '../runtime/config/config.ts';
import { OperatorError, reportErrors, translateFileError } from '../runtime/process/lifecycle.ts';

export interface ExportOptions extends PlanApiOptions {
  readonly format?: string;
  readonly label?: string;
  readonly out?: string;
}

export interface ImportOptions extends PlanApiOptions {
  readonly label?: string;
  readonly archiveMissing?: true;
}

/** `tributary plan export`: prints the plan of a workspace, or writes it to a file. */
export async function exportPlan(options: ExportOptions, environment: Environment): Promise<number> {
  const api = new PlanApi(options, environment);
  return reportErrors('plan export', async () => {
    const { text, isCsv } = await api.get({ format: options.format, label: options.label });
    await writeText(isCsv ? text : `${JSON.stringify(JSON.parse(text), null, 2)}\n`, options.out);
    return 0;
  });
}

/** `tributary plan import <file>`: creates and replaces contracts, and prints what it did. */
export function importPlan(file: string, options: ImportOptions, environment: Environment): Promise<number> {
  return sendPlan('import', file, options, environment);
}

/** `tributary plan diff <file>`: prints what an import would do. Exit code 1 where it would change something. */
export function diffPlan(file: string, options: ImportOptions, environment: Environment): Promise<number> {
  return sendPlan('diff', file, options, environment);
}

interface ImportAnswer {
  readonly created: number;
  readonly updated: number;
  readonly unchanged: number;
  readonly archived: number;
  readonly changes: readonly {
    readonly action: string;
    readonly event_type: string;
    readonly event_name: string;
    readonly fields: readonly string[];
  }[];
  readonly notes: readonly { readonly path: string; readonly message: string }[];
}

async function sendPlan(
  what: 'import' | 'diff',
  file: string,
  options: ImportOptions,
  environment: Environment,
): Promise<number> {
  const api = new PlanApi(options, environment);
  return reportErrors(`plan ${what}`, async () => {
    const body = await readText(file);
    const query = {
      label: options.label,
      ...(options.archiveMissing === true ? { missing: 'archive' } : {}),
      ...(what === 'diff' ? { dry_run: 'true' } : {}),
    };
    const answer = JSON.parse((await api.put(query, body, isCsv(body))).text) as ImportAnswer;
    process.stdout.write(report(answer));
    const changed = answer.created + answer.updated + answer.archived;
    return what === 'diff' && changed > 0 ? 1 : 0;
  });
}

/** A document that is no JSON is a table. */
export function isCsv(text: string): boolean {
  return !/^\ufeff?\s*[{[]/.test(text);
}

function report({ created, updated, unchanged, archived, changes, notes }: ImportAnswer): string {
  const lines = changes
    .filter(({ action }) => action !== 'unchanged')
    .map(({ action, event_type, event_name, fields }) => {
      const event = event_name === '' ? event_type : `${event_type} ${JSON.stringify(event_name)}`;
      return `${action} ${event}${fields.length === 0 ? '' : `: ${fields.join(', ')}`}`;
    });
  const left = notes.map(({ path, message }) => `note: ${path} ${message}`);
  const sum = `${created} created, ${updated} updated, ${archived} archived, ${unchanged} unchanged`;
  return `${[...lines, ...left, sum].join('\n')}\n`;
}

/** The text of a file; `-` is standard input. */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file === '-' ? '/dev/stdin' : file, 'utf8');
  } catch (error) {
    throw file === '-' ? error : new OperatorError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** Writes to a file, or to standard output. */
export async function writeText(text: string, file: string | undefined): Promise<void> {
  if (file === undefined) {
    process.stdout.write(text);
    return;
  }
  try {
    await writeFile(file, text);
  } catch (error) {
    throw translateFileError(error);
  }
}

/** Where a plan is, for commands that speak to a running server. */
export interface PlanApiOptions {
  readonly url: string;
  readonly workspace?: string;
}

/** A response of the API that is no error. */
interface Answer {
  readonly text: string;
  readonly isCsv: boolean;
}

const TIMEOUT_MS = 60_000;
/** Waits that a server asks for, in all: an import of many contracts may exceed its rate of changes. */
const LONGEST_WAIT_S = 600;
const REFUSED_FOR_NOW = new Set([429, 503]);

/**
 * Calls `/workspaces/{id}/tracking-plan` of a server with the API key of `TRIBUTARY_API_KEY` or of the file of
 * `TRIBUTARY_API_KEY_FILE`.
 */
export class PlanApi {
  readonly #base: URL;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ url, workspace }: PlanApiOptions, environment: Environment) {
    if (workspace === undefined) throw new InvalidArgumentError('--workspace names the workspace');
    const key = readApiKey(environment);
    if (!URL.canParse(url)) throw new InvalidArgumentError('--url is the address of a server');
    const root = url.endsWith('/') ? url : `${url}/`;
    this.#base = new URL(`api/v1/workspaces/${encodeURIComponent(workspace)}/tracking-plan`, root);
    this.#headers = { authorization: `Bearer ${key}`, 'x-workspace-id': workspace };
  }

  get(query: Readonly<Record<string, string | undefined>>): Promise<Answer> {
    return this.#call('GET', query);
  }

  put(query: Readonly<Record<string, string | undefined>>, body: string, isCsv: boolean): Promise<Answer> {
    return this.#call('PUT', query, { body, type: isCsv ? 'text/csv' : 'application/json' });
  }

  /** An import may be repeated: stored contracts stay unchanged. So it continues where the server refused for a while. */
  async #call(
    method: 'GET' | 'PUT',
    query: Readonly<Record<string, string | undefined>>,
    sent?: { readonly body: string; readonly type: string },
  ): Promise<Answer> {
    const address = new URL(this.#base);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) address.searchParams.set(name, value);
    for (let waitedS = 0; ; ) {
      const response = await this.#fetch(address, method, sent);
      const text = await response.text();
      if (response.ok)
        return { text, isCsv: response.headers.get('content-type')?.startsWith('text/csv') === true };
      const waitS = Number(response.headers.get('retry-after') ?? Number.NaN);
      if (!REFUSED_FOR_NOW.has(response.status) || Number.isNaN(waitS) || waitedS + waitS > LONGEST_WAIT_S)
        throw new OperatorError(refusal(response.status, text));
      waitedS += Math.max(1, waitS);
      await new Promise((resolve) => setTimeout(resolve, Math.max(1, waitS) * 1_000));
    }
  }

  async #fetch(
    address: URL,
    method: string,
    sent: { readonly body: string; readonly type: string } | undefined,
  ): Promise<Response> {
    try {
      return await fetch(address, {
        method,
        headers: { ...this.#headers, ...(sent === undefined ? {} : { 'content-type': sent.type }) },
        ...(sent === undefined ? {} : { body: sent.body }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      throw new OperatorError(
        `${address.origin} does not answer: ${cause instanceof Error ? cause.message : String(cause)}`,
      );
    }
  }
}

/** One line for what the server refused, and one for each fault. */
function refusal(status: number, text: string): string {
  let body: { readonly error?: unknown; readonly details?: unknown; readonly reason?: unknown };
  try {
    body = Object(JSON.parse(text));
  } catch {
    return `the server answered ${status}: ${text.slice(0, 200)}`;
  }
  const details = Array.isArray(body.details) ? body.details : [];
  const faults = details.map(
    ({ path, message }: { path?: unknown; message?: unknown }) => `\n  ${path}: ${message}`,
  );
  const reason = body.reason === undefined ? '' : ` (${String(body.reason)})`;
  return `the server answered ${status}: ${String(body.error)}${reason}${faults.join('')}`;
}
