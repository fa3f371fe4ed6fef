import type { ConsoleMessage, Page, Request, Response } from 'playwright-core';

/** Chromium's own report of a failed request; the answers themselves are watched instead. */
const FAILED_LOAD = /^Failed to load resource/;

/**
 * Collects what must not happen on any page: errors in the console, uncaught exceptions, violations of the content
 * security policy, requests to other hosts, and answers of 400 and above that no test asked for.
 */
export class PageWatch {
  readonly #origins: readonly string[];
  readonly #problems: string[] = [];
  readonly #expected = new Set<number>();
  readonly #simulated = new Set<string>();

  /** `origins`: the hosts that the page may call. */
  constructor(page: Page, ...origins: readonly string[]) {
    this.#origins = origins;
    page.on('console', (message) => this.#onConsole(message));
    page.on('pageerror', (error) => this.#problems.push(`uncaught: ${error.stack ?? error.message}`));
    page.on('request', (request) => this.#onRequest(request));
    page.on('response', (response) => this.#onResponse(response));
  }

  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Answers of these statuses are part of the test. */
  expectStatus(...statuses: readonly number[]): void {
    for (const status of statuses) this.#expected.add(status);
  }

  /** The answer to this request is made by the test. */
  noteSimulated(request: Request): void {
    this.#simulated.add(`${request.method()} ${request.url()}`);
  }

  #onConsole(message: ConsoleMessage): void {
    if (!['error', 'warning'].includes(message.type()) || FAILED_LOAD.test(message.text())) return;
    const { url, lineNumber, columnNumber } = message.location();
    this.#problems.push(
      `console ${message.type()}: ${message.text()} at ${url}:${lineNumber}:${columnNumber}`,
    );
  }

  #onRequest(request: Request): void {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== 'data:' && protocol !== 'blob:' && !this.#origins.includes(origin))
      this.#problems.push(`request to another host: ${request.url()}`);
  }

  #onResponse(response: Response): void {
    const call = `${response.request().method()} ${response.url()}`;
    if (response.status() < 400 || this.#simulated.has(call) || this.#expected.has(response.status())) return;
    this.#problems.push(`${response.status()} ${call}`);
  }
}
