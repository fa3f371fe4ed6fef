import type { ConnectionTest, Destination } from '@tributary/core';
import { messageOf } from '@tributary/core';
import type { Static } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { conflict } from '../../http/errors.ts';
import type { destinationTestResult } from './schemas.ts';

/** Beyond the connector's own timeout: one that does not keep it must not hold a request for ever, ms. */
const GIVE_UP_MS = 15_000;

type Dependencies = Pick<GatewayDependencies, 'connectors' | 'unseal' | 'logger'>;

/**
 * Reaches a destination from this process as deliver would, whether it is enabled or not: that is when one wants to
 * know. 409 when it has no connector any more, or no key opens its secrets.
 */
export async function testDestination(
  dependencies: Dependencies,
  destination: Destination,
): Promise<Static<typeof destinationTestResult>> {
  const connector = dependencies.connectors.connector(destination.type);
  if (connector === undefined) throw conflict();
  const place = opened(dependencies, destination);
  const began = performance.now();
  const test = await connector.test(place, { signal: AbortSignal.timeout(GIVE_UP_MS) });
  return presentTest(test, Math.round(performance.now() - began));
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
