import { setTimeout as sleep } from 'node:timers/promises';

/** An answer of the API. */
export interface Answer<T = unknown> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Calls a Tributary server as a user would, with one credential. */
export class Client {
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #workspaceId: string | undefined;

  constructor(base: string, token?: string, workspaceId?: string) {
    this.#base = base;
    this.#token = token;
    this.#workspaceId = workspaceId;
  }

  /** The same server with another credential or workspace. */
  with(options: { token?: string; workspaceId?: string }): Client {
    return new Client(this.#base, options.token ?? this.#token, options.workspaceId ?? this.#workspaceId);
  }

  /** The same credential and workspace at another address. */
  at(base: string): Client {
    return new Client(base, this.#token, this.#workspaceId);
  }

  /** Calls `path` below `/api/v1`, or below the workspace when it starts with `./`. */
  async call<T = unknown>(
    method: string,
    path: string,
    { body, headers = {} }: CallOptions = {},
  ): Promise<Answer<T>> {
    const full = path.startsWith('./') ? `/workspaces/${this.#workspaceId}/${path.slice(2)}` : path;
    const response = await fetch(`${this.#base}/api/v1${full}`, {
      method,
      headers: {
        ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
        ...(this.#workspaceId === undefined ? {} : { 'x-workspace-id': this.#workspaceId }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: (text === '' ? undefined : JSON.parse(text)) as T,
    };
  }

  /** The body of a call that must succeed. */
  async ok<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.call<T>(method, path, body === undefined ? {} : { body });
    if (answer.status >= 300)
      throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  get<T = unknown>(path: string): Promise<T> {
    return this.ok<T>('GET', path);
  }

  post<T = unknown>(path: string, body?: unknown): Promise<T> {
    return this.ok<T>('POST', path, body);
  }

  put<T = unknown>(path: string, body: unknown): Promise<T> {
    return this.ok<T>('PUT', path, body);
  }
}

/** Polls until the answer is as wanted; fails with the last one after `timeoutMs`. */
export async function eventually<T>(
  ask: () => Promise<T> | T,
  wanted: (value: T) => boolean,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await ask();
    if (wanted(value)) return value;
    if (Date.now() > deadline)
      throw new Error(`not within ${timeoutMs} ms; last: ${JSON.stringify(value)?.slice(0, 2_000)}`);
    await sleep(25);
  }
}

/** All pages of a list. Throws where one is not 200. */
export async function listAll<Item>(owner: Client, path: string): Promise<readonly Item[]> {
  const items: Item[] = [];
  let next: string | undefined = `${path}?limit=1000`;
  while (next !== undefined) {
    const page: Answer<readonly Item[]> = await owner.call<readonly Item[]>('GET', next);
    if (page.status !== 200) throw new Error(`${next} answered ${page.status}`);
    items.push(...page.body);
    const cursor: string | undefined = /[?&]cursor=([^&>]+)/.exec(page.headers.get('link') ?? '')?.[1];
    next = cursor === undefined ? undefined : `${path}?limit=1000&cursor=${cursor}`;
  }
  return items;
}
