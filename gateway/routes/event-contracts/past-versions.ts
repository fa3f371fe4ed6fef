import type { CatalogView, Contract } from '@tributary/core';
import { ApiError } from '../../errors/api-error.ts';

/**
 * Bytes of JSON that the past versions of one workspace's contracts may come to, while they may still judge: every
 * process has them in memory.
 */
export const MAX_PAST_BYTES = 32 * 1024 * 1024;
/** Bytes that each of them takes beside its schema: a million versions of an empty schema are no small thing. */
const BYTES_OF_A_VERSION = 1_024;
const RETRY_AFTER_SECONDS = 3_600;

const sizes = new WeakMap<Contract, number>();

function sizeOf(contract: Contract): number {
  const known = sizes.get(contract);
  if (known !== undefined) return known;
  const size = BYTES_OF_A_VERSION + Buffer.byteLength(JSON.stringify(contract.schema_definition));
  sizes.set(contract, size);
  return size;
}

/** 429 for one more version where a workspace has changed its contracts too often of late. */
export function checkPastVersions(state: Pick<CatalogView, 'pastContracts'>, workspaceId: string): void {
  let bytes = 0;
  for (const contract of state.pastContracts(workspaceId)) {
    bytes += sizeOf(contract);
    if (bytes > MAX_PAST_BYTES)
      throw new ApiError(429, 'too many requests', {
        fields: { quota: 'past_contract_versions', limit: MAX_PAST_BYTES },
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      });
  }
}
