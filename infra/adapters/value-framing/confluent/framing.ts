import {
  FRAME_HEADER_BYTES,
  type Logger,
  PUBLIC_SCHEMAS,
  unframeValue,
  type ValueFraming,
} from '@tributary/core';
import { registerSchema, type SchemaRegistryAddress, schemaRegistry } from './subject.ts';

export interface ConfluentFramingOptions extends SchemaRegistryAddress {
  /** Before every topic's name, as on the log; `''` for none. */
  readonly prefix: string;
  readonly logger: Logger;
}

const NO_HEADER = '\0'.repeat(FRAME_HEADER_BYTES);
const ID_OFFSET = 1;

/**
 * Registers the schema of each public topic under `<prefix><topic>-value` and frames with the ids it was given. Any
 * number of processes may do so at once; a schema that is registered already is looked up and nothing is written.
 *
 * Errors: `InvalidInput` for an address that is none, `Unavailable`, `SchemaRefused`.
 */
export async function openConfluentFraming(options: ConfluentFramingOptions): Promise<ValueFraming> {
  const registry = schemaRegistry(options);
  const ids = new Map<string, number>();
  for (const [topic, schema] of PUBLIC_SCHEMAS) {
    const subject = `${options.prefix}${topic}-value`;
    const id = await registerSchema(registry, subject, schema);
    options.logger.info({ subject, schemaId: id }, 'schema registered');
    ids.set(topic, id);
  }
  return {
    frame: (topic, json) => {
      const id = ids.get(topic);
      return id === undefined ? Buffer.from(json, 'utf8') : framed(id, json);
    },
    unframe: (_topic, bytes) => unframeValue(bytes),
    close: async () => {},
  };
}

/** One encoding of one string: seen to take half the time of joining two buffers. */
function framed(id: number, json: string): Buffer {
  const bytes = Buffer.from(NO_HEADER + json, 'utf8');
  bytes.writeUInt32BE(id, ID_OFFSET);
  return bytes;
}
