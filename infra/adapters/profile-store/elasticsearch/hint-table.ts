import { isUuid } from '@tributary/core';
import type { Hints } from './view.ts';

/** What of a claim is kept to tell it from another one in the same place, and a ucid. */
const [TAG_BYTES, UCID_BYTES] = [8, 16];
const SLOT_BYTES = TAG_BYTES + UCID_BYTES;

/**
 * Hints in a table of a fixed size, 24 bytes each: a newer one replaces whichever has its place. Made for millions; a
 * wrong one costs a read, as nobody believes a hint that its profile does not bear out.
 */
export class HintTable implements Hints {
  readonly #slots: Buffer;
  readonly #count: number;

  /** Memory is taken as it is used. */
  constructor(count: number) {
    this.#count = count;
    this.#slots = Buffer.alloc(count * SLOT_BYTES);
  }

  get(claim: string): string | undefined {
    const { at, tag } = this.#placeOf(claim);
    if (!this.#slots.subarray(at, at + TAG_BYTES).equals(tag)) return undefined;
    const hex = this.#slots.toString('hex', at + TAG_BYTES, at + SLOT_BYTES);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  set(claim: string, ucid: string): void {
    if (!isUuid(ucid)) return;
    const { at, tag } = this.#placeOf(claim);
    tag.copy(this.#slots, at);
    this.#slots.write(ucid.replaceAll('-', ''), at + TAG_BYTES, 'hex');
  }

  delete(claim: string): void {
    const { at, tag } = this.#placeOf(claim);
    if (this.#slots.subarray(at, at + TAG_BYTES).equals(tag)) this.#slots.fill(0, at, at + SLOT_BYTES);
  }

  /** Claims are hashes: any part of one is as good as another. An empty slot has a tag that none has. */
  #placeOf(claim: string): { readonly at: number; readonly tag: Buffer } {
    const bytes = Buffer.from(claim.slice(0, 16), 'base64url');
    const tag = bytes.subarray(4, 4 + TAG_BYTES);
    return { at: (bytes.readUInt32BE(0) % this.#count) * SLOT_BYTES, tag };
  }
}
