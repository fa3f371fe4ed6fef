/** The items in groups of a size; the last one may be smaller. Items are taken as groups are read. */
export function* chunks<T>(all: Iterable<T>, size: number): Generator<readonly T[]> {
  let chunk: T[] = [];
  for (const one of all) {
    chunk.push(one);
    if (chunk.length < size) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}
