import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AnsweredRequest,
  type CanonicalEvent,
  type ConnectionTest,
  type ConnectorDestination,
  type Destination,
  type JsonObject,
  messageOf,
  TributaryError,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { conflict, invalidRequest } from '../errors/api-error.ts';
import { FairSemaphore, type SemaphoreLimits } from '../limits/turns.ts';
import { boolean, integer, listOf, nullable, shownAs, string } from '../resources/schemas.ts';

/** A request of a destination, with secrets masked. */
export const requestFields = {
  method: Type.String(),
  url: Type.String(),
  headers: Type.Record(Type.String(), Type.String()),
  body: Type.String(),
};

export const destinationTestResult = Type.Object(
  {
    ok: boolean('Whether the destination is reachable and would accept deliveries.'),
    reason: nullable(string('Why not.')),
    status: nullable(integer('HTTP status, where there was one.')),
    request: nullable(
      string(
        'The request as it was sent, of types that send HTTP requests of their own; secret headers are masked.',
      ),
    ),
    response: nullable(string('The start of its response.')),
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
export class TrialTurns {
  /** One semaphore for each workspace with running tests. */
  readonly #semaphores = new Map<string, { readonly semaphore: FairSemaphore; users: number }>();
  readonly #closed = new AbortController();

  /**
   * Runs `work` when it is the turn of the workspace, with a signal that is aborted when the client disconnects and at
   * `close`. Rejects with 429 when too many of the workspace wait.
   */
  run<T>(workspaceId: string, disconnected: AbortSignal, work: (signal: AbortSignal) => Promise<T>) {
    const answered = Promise.withResolvers<T>();
    const done = this.#withPermit(workspaceId, disconnected, async () => {
      const pause = sleep(MIN_TEST_MS, undefined, { ref: false });
      const signal = AbortSignal.any([disconnected, this.#closed.signal]);
      await work(signal).then(answered.resolve, answered.reject);
      await pause;
    });
    done.catch(answered.reject);
    return answered.promise;
  }

  async #withPermit(
    workspaceId: string,
    disconnected: AbortSignal,
    work: () => Promise<void>,
  ): Promise<void> {
    const own = this.#semaphores.get(workspaceId) ?? { semaphore: new FairSemaphore(CONCURRENCY), users: 0 };
    this.#semaphores.set(workspaceId, own);
    own.users += 1;
    try {
      await own.semaphore.run(workspaceId, disconnected, work);
    } finally {
      own.users -= 1;
      if (own.users === 0) this.#semaphores.delete(workspaceId);
    }
  }

  /** Aborts those that run or wait. */
  close(): void {
    this.#closed.abort();
  }
}

/**
 * Tests destinations as deliver would use them, enabled or not. The connections of a test are closed when it resolves, when
 * `disconnected` fires, at the timeout and when the turns are closed.
 *
 * Errors: 409 when this release has no connector for the destination, or no key opens its secrets; 429 when too many tests of
 * the workspace wait.
 */
export class DestinationTests {
  readonly #dependencies: Dependencies;
  readonly #turns: TrialTurns;

  constructor(dependencies: Dependencies, turns: TrialTurns) {
    this.#dependencies = dependencies;
    this.#turns = turns;
  }

  test(destination: Destination, disconnected: AbortSignal) {
    return this.#timed(destination, disconnected, (ended) => {
      const test = this.#tester(destination);
      const tested = async (signal: AbortSignal): Promise<ConnectionTest> => {
        try {
          return await test(signal);
        } catch (error) {
          if (error instanceof TributaryError) return { ok: false, reason: error.message };
          const about = { destination: destination.id, error: messageOf(error) };
          this.#dependencies.logger.error(about, 'the test of a destination failed unexpectedly');
          return { ok: false, reason: 'unexpected failure' };
        }
      };
      const late = AbortSignal.timeout(TIMEOUT_MS);
      const isLate = Promise.withResolvers<ConnectionTest>();
      late.addEventListener('abort', () => isLate.resolve({ ok: false, reason: 'timed out' }));
      return Promise.race([tested(AbortSignal.any([late, ended])), isLate.promise]);
    });
  }

  /** Sends an event as deliver would, without asking the rules. 400 where the type cannot. */
  send(destination: Destination, event: CanonicalEvent, disconnected: AbortSignal) {
    return this.#timed(destination, disconnected, async (ended): Promise<TestResult> => {
      const connector = this.#dependencies.connectors.connector(destination.type);
      if (connector?.deliverTrial === undefined)
        throw invalidRequest({ path: '/event', message: 'cannot be sent to this type of destination' });
      const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ended]);
      const trial = await connector.deliverTrial(opened(this.#dependencies, destination), event, { signal });
      const { outcome, status } = trial.result;
      const about = { requests: trial.requests, ...(status === undefined ? {} : { status }) };
      if (outcome === 'delivered') return { ok: true, ...about };
      return { ok: false, reason: trial.result.reason, ...about };
    });
  }

  #timed(
    { workspace_id }: Destination,
    disconnected: AbortSignal,
    work: (ended: AbortSignal) => Promise<TestResult>,
  ) {
    return this.#turns.run(workspace_id, disconnected, async (ended) => {
      const began = performance.now();
      const result = await work(ended);
      return shownAs(destinationTestResult, result, {
        reason: result.ok ? null : result.reason,
        requests: result.requests ?? [],
        duration_ms: Math.round(performance.now() - began),
      });
    });
  }

  /** The test of a connector or a warehouse. A warehouse is opened for it. */
  #tester(destination: Destination): (signal: AbortSignal) => Promise<ConnectionTest> {
    const { connectors } = this.#dependencies;
    const connector = connectors.connector(destination.type);
    if (connector === undefined && destination.warehouse !== true) throw conflict('unusable');
    const unsealed = opened(this.#dependencies, destination);
    if (connector !== undefined) return (signal) => connector.test(unsealed, { signal });
    const warehouse = connectors.warehouse(destination.type, unsealed);
    if (warehouse === undefined) throw conflict('unusable');
    return async (signal) => {
      try {
        return await warehouse.test(signal);
      } finally {
        await warehouse.close();
      }
    };
  }
}

export function unsavedIn({ workspace }: FastifyRequest, settings: JsonObject): ConnectorDestination {
  return { id: 'unsaved', workspaceId: workspace.id, version: 1, settings };
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
