import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AnsweredRequest,
  type CanonicalEvent,
  type ConnectionTest,
  type Destination,
  messageOf,
  TributaryError,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { conflict, invalidRequest } from '../errors/api-error.ts';
import { FairSemaphore, type SemaphoreLimits } from '../limits/turns.ts';
import { listOf, nullable, shownAs } from '../resources/schemas.ts';

/** A request of a destination, with secrets masked. */
export const requestFields = {
  method: Type.String(),
  url: Type.String(),
  headers: Type.Record(Type.String(), Type.String()),
  body: Type.String(),
};

export const destinationTestResult = Type.Object(
  {
    ok: Type.Boolean({ description: 'Whether the destination is reachable and would accept deliveries.' }),
    reason: nullable(Type.String({ description: 'Why not.' })),
    status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
    request: nullable(
      Type.String({
        description:
          'The request as it was sent, of types that send HTTP requests of their own; secret headers are masked.',
      }),
    ),
    response: nullable(Type.String({ description: 'The start of its response.' })),
    requests: listOf(
      Type.Object({
        ...requestFields,
        response: nullable(
          Type.Object({ status: Type.Integer(), body: Type.String() }, { description: 'Null: none came.' }),
        ),
      }),
      'Those that were made of the event, where one was sent; secrets are masked.',
    ),
    duration_ms: Type.Integer(),
  },
  { title: 'DestinationTrial' },
);

/** The timeout of a test, ms: above the connector's own, for a connector that does not keep it. */
const TIMEOUT_MS = 15_000;

/** A test holds its permit for at least this time, ms: ten tests a second and workspace. */
const MIN_TEST_MS = 400;

/** Tests of one workspace in this process: each prepares a client, which takes some ms of its thread. */
const CONCURRENCY: SemaphoreLimits = {
  concurrency: 4,
  maxWaiting: 20,
  maxWaitingPerOwner: 20,
  retryAfterSeconds: 5,
};

type Dependencies = Pick<GatewayDependencies, 'connectors' | 'unseal' | 'logger'>;

/** Bounds the tests and previews of destinations, by workspace. */
export interface TrialTurns {
  /**
   * Runs `work` when it is the turn of the workspace, with a signal that is aborted when the client disconnects and at
   * `close`. Rejects with 429 when too many of the workspace wait.
   */
  run<T>(
    workspaceId: string,
    disconnected: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T>;
  /** Aborts those that run or wait. */
  close(): void;
}

export function createTrialTurns(): TrialTurns {
  /** One semaphore for each workspace with running tests. */
  const semaphores = new Map<string, { readonly semaphore: FairSemaphore; users: number }>();
  const closed = new AbortController();

  async function withPermit(
    workspaceId: string,
    disconnected: AbortSignal,
    work: () => Promise<void>,
  ): Promise<void> {
    const own = semaphores.get(workspaceId) ?? { semaphore: new FairSemaphore(CONCURRENCY), users: 0 };
    semaphores.set(workspaceId, own);
    own.users += 1;
    try {
      await own.semaphore.run(workspaceId, disconnected, work);
    } finally {
      own.users -= 1;
      if (own.users === 0) semaphores.delete(workspaceId);
    }
  }

  return {
    run<T>(workspaceId: string, disconnected: AbortSignal, work: (signal: AbortSignal) => Promise<T>) {
      const answered = Promise.withResolvers<T>();
      const done = withPermit(workspaceId, disconnected, async () => {
        const pause = sleep(MIN_TEST_MS, undefined, { ref: false });
        await work(AbortSignal.any([disconnected, closed.signal])).then(answered.resolve, answered.reject);
        await pause;
      });
      done.catch(answered.reject);
      return answered.promise;
    },
    close: () => closed.abort(),
  };
}

/** Tests the connection to destinations as deliver would use them, enabled or not. */
interface DestinationTests {
  /**
   * The connections of a test are closed when it resolves, when `disconnected` fires, at the timeout and when the turns are
   * closed.
   *
   * Errors: 409 when this release has no connector for the destination, or no key opens its secrets; 429 when too many
   * tests of the workspace wait.
   */
  test(destination: Destination, disconnected: AbortSignal): Promise<Static<typeof destinationTestResult>>;
  /** Sends an event as deliver would, whatever the rules say. Errors: as of `test`, and 400 where the type cannot. */
  send(
    destination: Destination,
    event: CanonicalEvent,
    disconnected: AbortSignal,
  ): Promise<Static<typeof destinationTestResult>>;
}

export function createDestinationTests(dependencies: Dependencies, turns: TrialTurns): DestinationTests {
  async function run(destination: Destination, ended: AbortSignal): Promise<ConnectionTest> {
    const test = tester(destination);
    const late = AbortSignal.timeout(TIMEOUT_MS);
    const signal = AbortSignal.any([late, ended]);
    const isLate = Promise.withResolvers<ConnectionTest>();
    late.addEventListener('abort', () => isLate.resolve({ ok: false, reason: 'timed out' }));
    return Promise.race([test(signal), isLate.promise]);
  }

  /** The test of a connector or a warehouse. A warehouse is opened for it. */
  function tester(destination: Destination): (signal: AbortSignal) => Promise<ConnectionTest> {
    const { connectors, logger } = dependencies;
    const connector = connectors.connector(destination.type);
    if (connector === undefined && destination.warehouse !== true) throw conflict('unusable');
    const unsealed = opened(dependencies, destination);
    if (connector !== undefined) return (signal) => connector.test(unsealed, { signal });
    const warehouse = connectors.warehouse(destination.type, unsealed);
    if (warehouse === undefined) throw conflict('unusable');
    return async (signal) => {
      try {
        return await warehouse.test(signal);
      } catch (error) {
        if (error instanceof TributaryError) return { ok: false, reason: error.message };
        const about = { destination: destination.id, error: messageOf(error) };
        logger.error(about, 'the test of a warehouse failed unexpectedly');
        return { ok: false, reason: 'unexpected failure' };
      } finally {
        await warehouse.close();
      }
    };
  }

  async function runEvent(
    destination: Destination,
    event: CanonicalEvent,
    ended: AbortSignal,
  ): Promise<TestResult> {
    const connector = dependencies.connectors.connector(destination.type);
    if (connector?.deliverTrial === undefined)
      throw invalidRequest({ path: '/event', message: 'cannot be sent to this type of destination' });
    const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ended]);
    const trial = await connector.deliverTrial(opened(dependencies, destination), event, { signal });
    const { outcome, status } = trial.result;
    const about = { requests: trial.requests, ...(status === undefined ? {} : { status }) };
    if (outcome === 'delivered') return { ok: true, ...about };
    return { ok: false, reason: trial.result.reason, ...about };
  }

  const timed = (
    destination: Destination,
    disconnected: AbortSignal,
    work: (ended: AbortSignal) => Promise<TestResult>,
  ) =>
    turns.run(destination.workspace_id, disconnected, async (ended) => {
      const began = performance.now();
      const result = await work(ended);
      return presentTest(result, Math.round(performance.now() - began));
    });

  return {
    test: (destination, disconnected) => timed(destination, disconnected, (ended) => run(destination, ended)),
    send: (destination, event, disconnected) =>
      timed(destination, disconnected, (ended) => runEvent(destination, event, ended)),
  };
}

/** The destination with its secrets in clear text; 409 where no key opens them. */
export function opened(
  { unseal, logger }: Pick<GatewayDependencies, 'unseal' | 'logger'>,
  destination: Destination,
) {
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

type TestResult = ConnectionTest & { readonly requests?: readonly AnsweredRequest[] };

function presentTest(test: TestResult, durationMs: number): Static<typeof destinationTestResult> {
  return shownAs(destinationTestResult, test, {
    reason: test.ok ? null : test.reason,
    requests: test.requests ?? [],
    duration_ms: durationMs,
  });
}
