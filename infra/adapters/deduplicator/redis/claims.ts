import { hash } from 'node:crypto';
import type { DedupeClaim, Message, Position } from '@tributary/core';
import { digestOf } from '../digest.ts';
import type { Claim } from './claim-script.ts';

/** Characters that stand for a topic's name. */
const NAME_LENGTH = 8;

/** Claims as they are kept: short names for what makes a claimant, so that a claim takes little of the memory. */
export class Claims {
  readonly #prefix: string;
  readonly #topics = new Map<string, string>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The first byte of the digest chooses one of 256 buckets, each a slot of a cluster by its hash tag. */
  of(claimant: DedupeClaim): Claim {
    const { key, bucket } = this.#keyOf(claimant);
    const claim = { key, bucket, position: this.#textOf(claimant.position) };
    if (claimant.rejected === true) return { ...claim, rejectedKey: rejectedKeyOf(key) };
    if (claimant.afterRejected === true) return { ...claim, afterRejectedKey: rejectedKeyOf(key) };
    return claim;
  }

  rejectedKeyOf(message: Message): string {
    return rejectedKeyOf(this.keyOf(message));
  }

  keyOf(message: Message): string {
    return this.#keyOf(message).key;
  }

  /** The position a stored text stands for; undefined when it is in none of the topics. */
  positionOf(text: string, topics: readonly string[]): Position | undefined {
    const topic = topics.find((name) => text.startsWith(this.#nameOf(name)));
    const parts = text.slice(NAME_LENGTH).split('.');
    const [partition, offset, index] = parts.map((part) => Number.parseInt(part, 36));
    if (topic === undefined || partition === undefined || offset === undefined || index === undefined)
      return undefined;
    return { topic, partition, offset, index };
  }

  #keyOf(message: Message): Pick<Claim, 'key' | 'bucket'> {
    const digest = Buffer.from(digestOf(message));
    const bucket = digest.toString('hex', 0, 1);
    return { key: `{${this.#prefix}d:${bucket}}${digest.toString('base64url', 1)}`, bucket };
  }

  /** The same for the same position and for no other, short of a collision of 48 bits between names of topics. */
  #textOf({ topic, partition, offset, index }: Position): string {
    return `${this.#nameOf(topic)}${partition.toString(36)}.${offset.toString(36)}.${index.toString(36)}`;
  }

  #nameOf(topic: string): string {
    const known = this.#topics.get(topic);
    if (known !== undefined) return known;
    const name = hash('sha256', topic, 'base64url').slice(0, NAME_LENGTH);
    this.#topics.set(topic, name);
    return name;
  }
}

/** No key of a message is so long: the rest of a digest has always the same length. */
function rejectedKeyOf(key: string): string {
  return `${key}r`;
}
