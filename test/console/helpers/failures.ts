import type { Locator, Page, Route } from 'playwright-core';
import type { PageWatch } from './page-watch.ts';

/** The API's own words for what it refuses. */
const ERRORS = {
  400: { error: 'invalid request', details: [{ path: '/name', message: 'is required' }] },
  401: { error: 'not authenticated' },
  403: { error: 'permission denied' },
  404: { error: 'not found' },
  409: { error: 'conflict', reason: 'taken', causes: [] },
  412: { error: 'version mismatch' },
  429: { error: 'too many requests' },
  503: { error: 'unavailable' },
} as const;

export type FailureStatus = keyof typeof ERRORS;

/** The id of every request that a test lets fail. */
export const REQUEST_ID = '01234567-89ab-7cde-8f01-23456789abcd';

export interface Simulation {
  /** The API answers again. */
  end(): Promise<void>;
}

/** Changes the answers of the API on a page. `url`: a glob of Playwright, or a regular expression. */
export class Failures {
  readonly #page: Page;
  readonly #watch: PageWatch;

  constructor(page: Page, watch: PageWatch) {
    this.#page = page;
    this.#watch = watch;
  }

  /** Answers with an error; `method` leaves requests of other methods alone. */
  async answer(url: string | RegExp, status: FailureStatus, method?: string): Promise<Simulation> {
    return this.#route(url, method, (route) =>
      route.fulfill({
        status,
        json: ERRORS[status],
        headers: {
          'x-request-id': REQUEST_ID,
          ...(status === 429 || status === 503 ? { 'retry-after': '1' } : {}),
        },
      }),
    );
  }

  /** The connection breaks. */
  async abort(url: string | RegExp, method?: string): Promise<Simulation> {
    return this.#route(url, method, (route) => route.abort('connectionreset'));
  }

  /** Answers nothing until `end`, then what the server says. */
  async hold(url: string | RegExp, method?: string): Promise<Simulation> {
    const released = Promise.withResolvers<void>();
    const { end } = await this.#route(url, method, async (route) => {
      await released.promise;
      await route.continue().catch(() => undefined); // the page has gone elsewhere
    });
    return {
      async end() {
        released.resolve();
        await end();
      },
    };
  }

  async #route(
    url: string | RegExp,
    method: string | undefined,
    handle: (route: Route) => Promise<void>,
  ): Promise<Simulation> {
    const handler = async (route: Route) => {
      if (method !== undefined && route.request().method() !== method) return route.fallback();
      this.#watch.noteSimulated(route.request());
      await handle(route);
    };
    await this.#page.route(url, handler);
    return { end: () => this.#page.unroute(url, handler) };
  }
}

/** Ends the failures and clicks "Try again", unless the page asked again by itself in between and has recovered. */
export async function tryAgain(button: Locator, ...failures: readonly Simulation[]): Promise<void> {
  await button.waitFor();
  for (const { end } of failures) await end();
  await Promise.any([button.click(), button.waitFor({ state: 'detached' })]);
}
