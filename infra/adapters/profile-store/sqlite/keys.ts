import { hash } from 'node:crypto';
import { type Identity, identityKey, type ProfileScope } from '@tributary/core';

/**
 * 16 bytes that stand for an identity of a scope. No part before the last holds a NUL, so short of a collision of 128
 * bits nothing else has them.
 */
export function claimOf({ org, region }: ProfileScope, identity: Identity): Buffer {
  return hash('sha256', `${org}\0${region}\0${identityKey(identity)}`, 'buffer').subarray(0, 16);
}

/** The 16 bytes of a UUID; what is none leads to nothing. */
export function ucidBytes(ucid: string): Buffer {
  return Buffer.from(ucid.replaceAll('-', ''), 'hex');
}
