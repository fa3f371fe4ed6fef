import { type ConnectionTest, type Destination, messageOf } from '@tributary/core';
import type { Static } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { conflict } from '../../http/errors.ts';
import { type TurnBounds, Turns } from '../../http/turns.ts';
import type { destinationTestResult } from './schemas.ts';

/** Beyond the connector's own timeout: one that does not keep it must not hold a request for ever, ms. */
const GIVE_UP_MS = 15_000;

/** Tests in this process at a time; 429 where too many wait, of a workspace or in all. */
const TURNS: TurnBounds = { atATime: 100, waiting: 400, waitingEach: 50, retryAfterSeconds: 5 };

type Dependencies = Pick<GatewayDependencies, 'connectors' | 'unseal' | 'logger'>;

/** Reaches destinations from this process as deliver would, whether they are enabled or not. */
export interface DestinationTests {
  /**
   * 409 when the destination has no connector any more, or no key opens its secrets. When it resolves nothing of the test
   * is left: its connections are ended, and so they are when `gone` fires, when the time is over and at `close`.
   */
  test(destination: Destination, gone: AbortSignal): Promise<Static<typeof destinationTestResult>>;
  /** Ends what is under way; each answers that it was stopped. */
  close(): void;
}

export function createDestinationTests(dependencies: Dependencies): DestinationTests {
  const turns = new Turns(TURNS);
  const underWay = new Set<AbortController>();

  async function run(destination: Destination, gone: AbortSignal): Promise<ConnectionTest> {
    const connector = dependencies.connectors.connector(destination.type);
    if (connector === undefined) throw conflict();
    const place = opened(dependencies, destination);
    const over = new AbortController();
    const late = Promise.withResolvers<ConnectionTest>();
    const end = () => {
      over.abort();
      late.resolve({ ok: false, reason: 'timed out' });
    };
    const timer = setTimeout(end, GIVE_UP_MS);
    const leave = () => over.abort();
    gone.addEventListener('abort', leave);
    if (gone.aborted) leave();
    underWay.add(over);
    try {
      return await Promise.race([connector.test(place, { signal: over.signal }), late.promise]);
    } finally {
      clearTimeout(timer);
      gone.removeEventListener('abort', leave);
      underWay.delete(over);
    }
  }

  return {
    async test(destination, gone) {
      const began = performance.now();
      const test = await turns.take(destination.workspace_id, gone, () => run(destination, gone));
      return presentTest(test, Math.round(performance.now() - began));
    },
    close() {
      for (const over of underWay) over.abort();
    },
  };
}

function opened({ unseal, logger }: Dependencies, destination: Destination) {
  try {
    return unseal(destination);
  } catch (error) {
    logger.error(
      { destination: destination.id, error: messageOf(error) },
      'the settings of a destination cannot be unsealed',
    );
    throw conflict();
  }
}

function presentTest(test: ConnectionTest, durationMs: number): Static<typeof destinationTestResult> {
  return {
    ok: test.ok,
    reason: test.ok ? null : test.reason,
    status: test.status ?? null,
    response: test.response ?? null,
    duration_ms: durationMs,
  };
}
