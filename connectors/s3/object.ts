import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { nameId } from '@tributary/core';
import { deliveryJson } from '../delivery-body.ts';
import type { Part } from '../parts.ts';
import { compressions } from '../thread-turns.ts';

const compress = promisify(gzip);

/** The object that the connection test puts. Hidden, so that no pattern for `.ndjson.gz` matches it. */
export function testKey(prefix: string): string {
  return `${prefix}/.connection-test`;
}

/** The name of the object of these deliveries, whatever order they are in. */
export function objectKey(prefix: string, deliveries: Part): string {
  const [oldest = ''] = deliveries.map(({ created_at }) => created_at).sort();
  const hour = oldest.slice(0, 13).replace(/[-T]/g, '/');
  const id = nameId(...deliveries.map((delivery) => delivery.id).sort());
  return `${prefix}/${hour}/${id}.ndjson.gz`;
}

export async function objectBody(deliveries: Part, isWanted: () => boolean): Promise<Uint8Array> {
  const [{ workspace_id }] = deliveries;
  return compressions.take(workspace_id, isWanted, () =>
    compress(deliveries.map((delivery) => `${deliveryJson(delivery)}\n`).join('')),
  );
}
