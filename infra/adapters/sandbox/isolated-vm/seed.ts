/** 53 bits of a name, an integer: FNV-1a twice, from two beginnings. */
export function seedOf(name: string): number {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ code, 0x5bd1e995);
  }
  return ((high >>> 0) & 0x1fffff) * 0x100000000 + (low >>> 0);
}
