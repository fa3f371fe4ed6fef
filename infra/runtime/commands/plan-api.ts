import { InvalidArgumentError } from 'commander';
import { type Environment, readApiKey } from '../config/config.ts';
import { OperatorError } from '../process/lifecycle.ts';

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

/** Calls `/workspaces/{id}/tracking-plan` of a server with the API key of `TRIBUTARY_API_KEY` or of the file of `TRIBUTARY_API_KEY_FILE`. */
export class PlanApi {
  readonly #base: URL;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ url, workspace }: PlanApiOptions, environment: Environment) {
    if (workspace === undefined) throw new InvalidArgumentError('--workspace names the workspace');
    const key = readApiKey(environment);
    if (!key.ok) throw new InvalidArgumentError(key.message);
    if (!URL.canParse(url)) throw new InvalidArgumentError('--url is the address of a server');
    const root = url.endsWith('/') ? url : `${url}/`;
    this.#base = new URL(`api/v1/workspaces/${encodeURIComponent(workspace)}/tracking-plan`, root);
    this.#headers = { authorization: `Bearer ${key.value}`, 'x-workspace-id': workspace };
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
