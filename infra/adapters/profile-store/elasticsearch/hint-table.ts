import { isUuid } from '@tributary/core';
import type { Hints } from './view.ts';

/** What of a claim is kept to tell it from another one in the same places, and a ucid. */
const [TAG_BYTES, UCID_BYTES] = [8, 16];
const SLOT_BYTES = TAG_BYTES + UCID_BYTES;
/** Places that a hint may have: of a table that is half full a hundredth is lost, where one place would lose a fifth. */
const PLACES = 8;
/** Of a claim, in base64url: where it belongs, and its tag. */
const [PLACE_BYTES, CLAIM_CHARACTERS] = [4, 16];

/**
 * Hints in a table of a fixed size, 24 bytes each: where all places of a newer one are taken it replaces another. Made
 * for millions; a wrong one costs a read, as nobody believes a hint that its profile does not bear out.
 */
export class HintTable implements Hints {
  readonly #slots: Buffer;
  readonly #sets: number;
  /** The bytes of the claim that is looked for. */
  readonly #sought = Buffer.alloc(PLACE_BYTES + TAG_BYTES);

  /** Memory is taken as it is used. */
  constructor(count: number) {
    this.#sets = Math.ceil(count / PLACES);
    this.#slots = Buffer.alloc(this.#sets * PLACES * SLOT_BYTES);
  }

  get(claim: string): string | undefined {
    const at = this.#find(claim).found;
    if (at === undefined) return undefined;
    const hex = this.#slots.toString('hex', at + TAG_BYTES, at + SLOT_BYTES);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  set(claim: string, ucid: string): void {
    if (!isUuid(ucid)) return;
    const { found, free } = this.#find(claim);
    const at = found ?? free;
    this.#sought.copy(this.#slots, at, PLACE_BYTES);
    this.#slots.write(ucid.replaceAll('-', ''), at + TAG_BYTES, 'hex');
  }

  delete(claim: string): void {
    const at = this.#find(claim).found;
    if (at !== undefined) this.#slots.fill(0, at, at + SLOT_BYTES);
  }

  /**
   * Where the claim's hint is, and where it may go: to an empty place, or else to one that its tag chooses. Claims are
   * hashes: any part of one is as good as another, and none has the tag of an empty place.
   */
  #find(claim: string): { readonly found: number | undefined; readonly free: number } {
    const [slots, sought] = [this.#slots, this.#sought];
    sought.write(claim.slice(0, CLAIM_CHARACTERS), 'base64url');
    const [low, high] = [sought.readUInt32LE(PLACE_BYTES), sought.readUInt32LE(PLACE_BYTES + 4)];
    const first = (sought.readUInt32LE(0) % this.#sets) * PLACES * SLOT_BYTES;
    let empty: number | undefined;
    for (let place = 0; place < PLACES; place++) {
      const at = first + place * SLOT_BYTES;
      const [ofLow, ofHigh] = [slots.readUInt32LE(at), slots.readUInt32LE(at + 4)];
      if (ofLow === low && ofHigh === high) return { found: at, free: at };
      if (ofLow === 0 && ofHigh === 0) empty ??= at;
    }
    return { found: undefined, free: empty ?? first + (low % PLACES) * SLOT_BYTES };
  }
}
