import {
  type Delivery,
  type DeliveryAttempt,
  type DeliveryResult,
  iso,
  type StoredDelivery,
  withFields,
} from '@tributary/core';
import { shorten } from '../text.ts';

/** Characters of a reason and of a destination's response that are kept with an attempt. */
const REASON_LENGTH = 500;
const RESPONSE_LENGTH = 1_000;

/** A delivery as it comes from the log. */
export interface Piece {
  readonly stored: StoredDelivery;
  /** Of its entry's value. */
  readonly bytes: number;
}

/** A call that was made for a delivery. */
export interface MadeCall {
  readonly result: DeliveryResult;
  /** Epoch ms. */
  readonly startedAt: number;
  readonly durationMs: number;
}

/** The delivery with one attempt more; only the latest `kept` attempts stay. */
export function withAttempt(delivery: Delivery, call: MadeCall, atOnce: boolean, kept: number): Delivery {
  return withFields(delivery, { attempts: [...delivery.attempts, attemptOf(call, atOnce)].slice(-kept) });
}

function attemptOf({ result, startedAt, durationMs }: MadeCall, atOnce: boolean): DeliveryAttempt {
  return {
    at: iso(startedAt),
    outcome: result.outcome,
    ...(result.outcome === 'delivered' ? {} : { reason: shorten(result.reason, REASON_LENGTH) }),
    ...(result.status === undefined ? {} : { status: result.status }),
    ...(result.response === undefined ? {} : { response: shorten(result.response, RESPONSE_LENGTH) }),
    duration_ms: Math.round(durationMs),
    ...(atOnce ? { at_once: true as const } : {}),
  };
}
