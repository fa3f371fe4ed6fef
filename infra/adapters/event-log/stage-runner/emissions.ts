import {
  type Emission,
  type LogEntry,
  MAX_VALUE_BYTES,
  messageOf,
  type PoisonRecord,
  TOPIC,
} from '@tributary/core';

const MAX_ERROR_LENGTH = 2_000;

/** Checks what a stage returned; an error here counts as a throw of the stage. */
export function checkEmissions(emissions: readonly Emission[], writes: ReadonlySet<string>): void {
  for (const { topic, key, value } of emissions) {
    if (!writes.has(topic)) throw new Error(`emission to "${topic}", which the stage does not declare`);
    if (typeof key !== 'string') throw new Error(`emission without a key to "${topic}"`);
    const size = Buffer.byteLength(value);
    if (size > MAX_VALUE_BYTES) throw new Error(`emission of ${size} bytes to "${topic}" is too large`);
  }
}

export function emissionBytes(emissions: readonly Emission[]): number {
  let bytes = 0;
  for (const { key, value } of emissions) bytes += Buffer.byteLength(value) + key.length;
  return bytes;
}

/** What goes to `stages.dead` for an entry that a stage cannot take. */
export function poisonEmission(stage: string, entry: LogEntry, thrown: unknown, at: string): Emission {
  const { key, value, headers, position } = entry;
  const record: PoisonRecord = {
    stage,
    position,
    error: messageOf(thrown).slice(0, MAX_ERROR_LENGTH),
    at,
    entry: { key, value, headers },
  };
  return { topic: TOPIC.poison, key, value: JSON.stringify(record), headers };
}
