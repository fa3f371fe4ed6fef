import { isUuid } from '@tributary/core';

/** Ucids that identity claims were seen to lead to. An entry may be outdated: the profile decides. */
export interface CachedLocations {
  get(hash: string): string | undefined;
  set(hash: string, ucid: string): void;
  delete(hash: string): void;
}

/** A slot holds the tag of an identity's hash, which distinguishes hashes of the same set, and a ucid. */
const [TAG_BYTES, UCID_BYTES] = [8, 16];
const SLOT_BYTES = TAG_BYTES + UCID_BYTES;
/** Slots of a set. In a table that is half full 8 lose about 1 % of the entries, where 1 would lose about 20 %. */
const SLOTS_A_SET = 8;
/** The start of the hash, in base64url, gives its set and its tag. */
const [SET_BYTES, HASH_CHARACTERS] = [4, 16];

/**
 * A set-associative cache in one buffer: 24 bytes for each of millions of entries, no garbage to collect. When all slots
 * of a set are taken, a new entry replaces another. A wrong entry costs a read: it counts only if the profile lists the
 * identity.
 */
export class LocationTable implements CachedLocations {
  readonly #slots: Buffer;
  readonly #sets: number;
  /** Scratch space: the first bytes of the hash that is looked up. */
  readonly #sought = Buffer.alloc(SET_BYTES + TAG_BYTES);

  /** `count`: of entries. The memory is reserved, and taken as it is used. */
  constructor(count: number) {
    this.#sets = Math.ceil(count / SLOTS_A_SET);
    this.#slots = Buffer.alloc(this.#sets * SLOTS_A_SET * SLOT_BYTES);
  }

  get(hash: string): string | undefined {
    const at = this.#find(hash).found;
    if (at === undefined) return undefined;
    const hex = this.#slots.toString('hex', at + TAG_BYTES, at + SLOT_BYTES);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  set(hash: string, ucid: string): void {
    if (!isUuid(ucid)) return;
    const { found, free } = this.#find(hash);
    const at = found ?? free;
    this.#sought.copy(this.#slots, at, SET_BYTES);
    this.#slots.write(ucid.replaceAll('-', ''), at + TAG_BYTES, 'hex');
  }

  delete(hash: string): void {
    const at = this.#find(hash).found;
    if (at !== undefined) this.#slots.fill(0, at, at + SLOT_BYTES);
  }

  /**
   * The slot of the hash, if it has one, and the slot that it would get: an empty one, else one chosen by its tag.
   * Any part of a hash is uniformly distributed, and no tag is zero as that of an empty slot.
   */
  #find(hash: string): { readonly found: number | undefined; readonly free: number } {
    const [slots, sought] = [this.#slots, this.#sought];
    sought.write(hash.slice(0, HASH_CHARACTERS), 'base64url');
    const [low, high] = [sought.readUInt32LE(SET_BYTES), sought.readUInt32LE(SET_BYTES + 4)];
    const first = (sought.readUInt32LE(0) % this.#sets) * SLOTS_A_SET * SLOT_BYTES;
    let empty: number | undefined;
    for (let slot = 0; slot < SLOTS_A_SET; slot++) {
      const at = first + slot * SLOT_BYTES;
      const [tagLow, tagHigh] = [slots.readUInt32LE(at), slots.readUInt32LE(at + 4)];
      if (tagLow === low && tagHigh === high) return { found: at, free: at };
      if (tagLow === 0 && tagHigh === 0) empty ??= at;
    }
    return { found: undefined, free: empty ?? first + (low % SLOTS_A_SET) * SLOT_BYTES };
  }
}
