import type { Contract } from '@tributary/core';
import { expect, it } from 'vitest';
import { checkPastVersions, MAX_PAST_BYTES } from './contract-fields.ts';

const SIZE = 256 * 1024;
const contracts = Array.from(
  { length: MAX_PAST_BYTES / SIZE + 1 },
  () => ({ schema_definition: { description: 'x'.repeat(SIZE) } }) as unknown as Contract,
);
const stateOf = (past: readonly Contract[]) => ({ pastContracts: () => past });

it('another version is refused with Retry-After if the versions that can still apply exceed the limit', () => {
  checkPastVersions(stateOf([]), 'w');
  checkPastVersions(stateOf(contracts.slice(0, 100)), 'w');
  expect(() => checkPastVersions(stateOf(contracts), 'w')).toThrow(
    expect.objectContaining({ status: 429, retryAfterSeconds: 3_600 }),
  );
});

it('a million versions of an empty schema counted two megabytes: each counts at least 1 KiB', () => {
  const empty = Array.from({ length: 40_000 }, () => ({ schema_definition: {} }) as unknown as Contract);
  checkPastVersions(stateOf(empty.slice(0, 20_000)), 'w');
  expect(() => checkPastVersions(stateOf(empty), 'w')).toThrow(
    expect.objectContaining({
      status: 429,
      fields: { quota: 'past_contract_versions', limit: MAX_PAST_BYTES },
    }),
  );
});
