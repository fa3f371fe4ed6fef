import type { ConnectionTest, DeliveryResult } from '@tributary/core';

/** Why nothing is sent for settings that their schema would not have let through. */
export const NOT_VALID = 'the settings are not valid';

/** What a connection test says whose message met with this. */
export function testedBy(result: DeliveryResult): ConnectionTest {
  const { status, response } = result;
  const shown = {
    ...(status === undefined ? {} : { status }),
    ...(response === undefined ? {} : { response }),
  };
  return result.outcome === 'delivered'
    ? { ok: true, ...shown }
    : { ok: false, reason: result.reason, ...shown };
}
