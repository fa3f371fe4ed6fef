import { hash } from 'node:crypto';
import type { Message, Position } from '@tributary/core';

/**
 * 16 bytes that identify (workspace, environment, message_id). The first two parts contain no NUL, so the hashed texts of
 * two messages are equal only when all three parts are.
 */
export function digestOf({ workspaceId, environment, messageId }: Message): Uint8Array {
  return hash('sha256', `${workspaceId}\0${environment}\0${messageId}`, 'buffer').subarray(0, 16);
}

/** Identifies the rejected events of a message: one byte longer than the id of any message. */
export function rejectedIdOf(digest: Uint8Array): Uint8Array {
  return Buffer.concat([digest, REJECTED]);
}

const REJECTED = Buffer.of(1);

/** A dedupe claim that moves from one engine to the other. */
export interface ExportedDedupeClaim {
  /** `digestOf` the message, or `rejectedIdOf` it for the rejected events of it. */
  readonly digest: Uint8Array;
  readonly position: Position;
  /** When it is forgotten, epoch ms. */
  readonly keptUntil: number;
}
