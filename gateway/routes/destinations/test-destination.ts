import { setTimeout as sleep } from 'node:timers/promises';
import { type ConnectionTest, type Destination, messageOf } from '@tributary/core';
import type { Static } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { conflict } from '../../errors/api-error.ts';
import { type TurnBounds, Turns } from '../../limits/fair-semaphore.ts';
import type { destinationTestResult } from './schemas.ts';

/** Beyond the connector's own timeout: one that does not keep it must not hold a request for ever, ms. */
const GIVE_UP_MS = 15_000;

/** A test takes its turn for so long at least, ms: ten a second and workspace. */
const MIN_TURN_MS = 400;

/** Tests of one workspace at a time in this process: each prepares a client, which takes milliseconds of its thread. */
const TURNS: TurnBounds = { atATime: 4, waiting: 20, waitingEach: 20, retryAfterSeconds: 5 };

type Dependencies = Pick<GatewayDependencies, 'connectors' | 'unseal' | 'logger'>;

/** Reaches destinations from this process as deliver would, whether they are enabled or not. */
export interface DestinationTests {
  /**
   * 409 when the destination has no connector any more, or no key opens its secrets; 429 where too many of its workspace
   * wait already. When it resolves nothing of the test
   * is left: its connections are ended, and so they are when `gone` fires, when the time is over and at `close`.
   */
  test(destination: Destination, gone: AbortSignal): Promise<Static<typeof destinationTestResult>>;
  /** Ends the tests that are under way or wait for their turn; each answers that it was stopped. */
  close(): void;
}

export function createDestinationTests(dependencies: Dependencies): DestinationTests {
  /** Of each workspace that has a test under way. */
  const turns = new Map<string, { readonly turns: Turns; users: number }>();
  const underWay = new Set<AbortController>();
  let isClosed = false;

  async function run(destination: Destination, gone: AbortSignal): Promise<ConnectionTest> {
    const connector = dependencies.connectors.connector(destination.type);
    if (connector === undefined) throw conflict('unusable');
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
    if (gone.aborted || isClosed) leave();
    underWay.add(over);
    try {
      return await Promise.race([connector.test(place, { signal: over.signal }), late.promise]);
    } finally {
      clearTimeout(timer);
      gone.removeEventListener('abort', leave);
      underWay.delete(over);
    }
  }

  function inTurn<T>(workspaceId: string, gone: AbortSignal, work: () => Promise<T>): Promise<T> {
    const answered = Promise.withResolvers<T>();
    const held = holdTurn(workspaceId, gone, async () => {
      const pause = sleep(MIN_TURN_MS, undefined, { ref: false });
      await work().then(answered.resolve, answered.reject);
      await pause;
    });
    held.catch(answered.reject);
    return answered.promise;
  }

  async function holdTurn(workspaceId: string, gone: AbortSignal, work: () => Promise<void>): Promise<void> {
    const own = turns.get(workspaceId) ?? { turns: new Turns(TURNS), users: 0 };
    turns.set(workspaceId, own);
    own.users += 1;
    try {
      await own.turns.take(workspaceId, gone, work);
    } finally {
      own.users -= 1;
      if (own.users === 0) turns.delete(workspaceId);
    }
  }

  return {
    test: (destination, gone) =>
      inTurn(destination.workspace_id, gone, async () => {
        const began = performance.now();
        const test = await run(destination, gone);
        return presentTest(test, Math.round(performance.now() - began));
      }),
    close() {
      isClosed = true;
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
    throw conflict('unusable');
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
