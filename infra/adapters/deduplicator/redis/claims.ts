import { hash } from 'node:crypto';
import type { Claimant, Position } from '@tributary/core';
import { digestOf } from '../digest.ts';
import type { Claim } from './claim-script.ts';

/** Claims as they are kept: short names for what makes a claimant, so that a claim takes little of the memory. */
export class Claims {
  readonly #prefix: string;
  readonly #topics = new Map<string, string>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The first byte of the digest chooses one of 256 buckets, each a slot of a cluster by its hash tag. */
  of(claimant: Claimant): Claim {
    const digest = Buffer.from(digestOf(claimant));
    const bucket = digest.toString('hex', 0, 1);
    return {
      key: `{${this.#prefix}d:${bucket}}${digest.toString('base64url', 1)}`,
      bucket,
      position: this.#textOf(claimant.position),
    };
  }

  /** The same for the same position and for no other, short of a collision of 48 bits between names of topics. */
  #textOf({ topic, partition, offset, index }: Position): string {
    const name = this.#topics.get(topic) ?? this.#remember(topic);
    return `${name}${partition.toString(36)}.${offset.toString(36)}.${index.toString(36)}`;
  }

  #remember(topic: string): string {
    const name = hash('sha256', topic, 'base64url').slice(0, 8);
    this.#topics.set(topic, name);
    return name;
  }
}
