/** CRC-32C (Castagnoli), bits reversed. */
const POLYNOMIAL = 0x82f63b78;

/** Table n, at 256 n, says what a byte does to the sum when n more bytes follow it. */
const TABLES = tables();

function tables(): Int32Array {
  const all = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let sum = byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ POLYNOMIAL : sum >>> 1;
    all[byte] = sum;
  }
  for (let at = 256; at < all.length; at++) {
    const shorter = entryOf(all, at - 256);
    all[at] = (shorter >>> 8) ^ entryOf(all, shorter & 0xff);
  }
  return all;
}

function entryOf(table: Int32Array, index: number): number {
  return table[index] ?? 0;
}

/** The checksum of a record batch, over `bytes` from `from` up to `to`; unsigned. Takes eight bytes at a time. */
export function crc32c(bytes: Buffer, from: number, to: number): number {
  let sum = -1;
  let at = from;
  for (; at + 8 <= to; at += 8) {
    const low = sum ^ bytes.readInt32LE(at);
    const high = bytes.readInt32LE(at + 4);
    sum =
      entryOf(TABLES, 1792 + (low & 0xff)) ^
      entryOf(TABLES, 1536 + ((low >>> 8) & 0xff)) ^
      entryOf(TABLES, 1280 + ((low >>> 16) & 0xff)) ^
      entryOf(TABLES, 1024 + (low >>> 24)) ^
      entryOf(TABLES, 768 + (high & 0xff)) ^
      entryOf(TABLES, 512 + ((high >>> 8) & 0xff)) ^
      entryOf(TABLES, 256 + ((high >>> 16) & 0xff)) ^
      entryOf(TABLES, high >>> 24);
  }
  for (; at < to; at++) sum = entryOf(TABLES, (sum ^ (bytes[at] ?? 0)) & 0xff) ^ (sum >>> 8);
  return ~sum >>> 0;
}
