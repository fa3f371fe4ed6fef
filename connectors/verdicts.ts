import type { ConnectionTest, DeliveryResult } from '@tributary/core';
import {
  AddressRefused,
  AnswerRefused,
  Closed,
  PasswordInClear,
  Stopped,
  TimedOut,
  TooMuchAnswered,
} from './errors.ts';

/** Why nothing is sent for settings that their schema would not have let through. */
export const NOT_VALID = 'the settings are not valid';

export const DELIVERED: DeliveryResult = { outcome: 'delivered' };

export const STOPPED: DeliveryResult = { outcome: 'retry', reason: 'stopped' };

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

/** What our own refusals mean, whatever the place; undefined for any other error. */
export function verdictOfOurs(error: unknown): DeliveryResult | undefined {
  if (error instanceof AddressRefused) return { outcome: 'dead', reason: 'address not allowed' };
  if (error instanceof TimedOut) return { outcome: 'retry', reason: 'timed out' };
  if (error instanceof TooMuchAnswered) return { outcome: 'retry', reason: 'the answer is too long' };
  if (error instanceof AnswerRefused) return { outcome: 'retry', reason: 'the answer cannot be understood' };
  if (error instanceof PasswordInClear)
    return { outcome: 'dead', reason: 'the server asks for the password in clear, without TLS' };
  if (error instanceof Stopped || error instanceof Closed) return STOPPED;
  return undefined;
}
