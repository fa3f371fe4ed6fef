import { hash } from 'node:crypto';
import type { Message } from '@tributary/core';

/**
 * 16 bytes that stand for (workspace, environment, message_id). The parts before the last hold no NUL, so two
 * messages share the text, and short of a collision of 128 bits the digest, only when all three are the same.
 */
export function digestOf({ workspaceId, environment, messageId }: Message): Uint8Array {
  return hash('sha256', `${workspaceId}\0${environment}\0${messageId}`, 'buffer').subarray(0, 16);
}

/** Stands for the rejected events of the message: one byte longer than every other id. */
export function rejectedIdOf(digest: Uint8Array): Uint8Array {
  return Buffer.concat([digest, REJECTED]);
}

const REJECTED = Buffer.of(1);
