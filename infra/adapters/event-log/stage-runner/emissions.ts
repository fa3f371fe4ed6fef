import { MAX_VALUE_BYTES, type OutputRecord, TOPIC } from '@tributary/core';

/** Checks what a stage returned; an error here counts as a throw of the stage. */
export function checkEmissions(emissions: readonly OutputRecord[], writes: ReadonlySet<string>): void {
  for (const { topic, key, value } of emissions) {
    if (!writes.has(topic)) throw new Error(`emission to "${topic}", which the stage does not declare`);
    if (typeof key !== 'string') throw new Error(`emission without a key to "${topic}"`);
    const size = Buffer.byteLength(value);
    // What was given up is JSON inside of JSON, and goes there again where it is given up again.
    if (size > MAX_VALUE_BYTES && topic !== TOPIC.poison)
      throw new Error(`emission of ${size} bytes to "${topic}" is too large`);
  }
}

export function emissionBytes(emissions: readonly OutputRecord[]): number {
  let bytes = 0;
  for (const { key, value, headers } of emissions) {
    bytes += Buffer.byteLength(value) + key.length;
    // Hundreds of rules, or the violations of an event, are more than the event itself.
    for (const name in headers) bytes += headers[name]?.length ?? 0;
  }
  return bytes;
}
