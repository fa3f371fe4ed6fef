const M = 0x5bd1e995;
const SEED = 0x9747b28c;

/** murmur2 as Kafka's own clients compute it, so that any client places a key where Tributary does. */
export function murmur2(bytes: Uint8Array): number {
  const length = bytes.length;
  let h = SEED ^ length;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    let k =
      (bytes[i] ?? 0) |
      ((bytes[i + 1] ?? 0) << 8) |
      ((bytes[i + 2] ?? 0) << 16) |
      ((bytes[i + 3] ?? 0) << 24);
    k = Math.imul(k, M);
    k ^= k >>> 24;
    k = Math.imul(k, M);
    h = Math.imul(h, M) ^ k;
  }
  const rest = length - i;
  if (rest === 3) h ^= (bytes[i + 2] ?? 0) << 16;
  if (rest >= 2) h ^= (bytes[i + 1] ?? 0) << 8;
  if (rest >= 1) h = Math.imul(h ^ (bytes[i] ?? 0), M);
  h ^= h >>> 13;
  h = Math.imul(h, M);
  h ^= h >>> 15;
  return h | 0;
}

/** The partition of a key, as Kafka's default partitioner: `toPositive(murmur2(utf8(key))) % partitions`. */
export function partitionOf(key: string, partitions: number): number {
  return partitions === 1 ? 0 : (murmur2(Buffer.from(key, 'utf8')) & 0x7fffffff) % partitions;
}
