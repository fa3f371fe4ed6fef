import type { Contract } from '@tributary/core';
import { expect, it } from 'vitest';
import { checkPastVersions, MAX_PAST_BYTES } from './contract-fields.ts';

const SIZE = 256 * 1024;
const contracts = Array.from(
  { length: MAX_PAST_BYTES / SIZE + 1 },
  () => ({ schema_definition: { description: 'x'.repeat(SIZE) } }) as unknown as Contract,
);
const stateOf = (past: readonly Contract[]) => ({ pastContracts: () => past });

it('refuses one version more where those that may still judge are too much to remember, and says when to come back', () => {
  checkPastVersions(stateOf([]), 'w');
  checkPastVersions(stateOf(contracts.slice(0, 100)), 'w');
  expect(() => checkPastVersions(stateOf(contracts), 'w')).toThrow(
    expect.objectContaining({ status: 429, retryAfterSeconds: 3_600 }),
  );
});

it('took a million versions of an empty schema for two megabytes', () => {
  const empty = Array.from({ length: 40_000 }, () => ({ schema_definition: {} }) as unknown as Contract);
  checkPastVersions(stateOf(empty.slice(0, 20_000)), 'w');
  expect(() => checkPastVersions(stateOf(empty), 'w')).toThrow(
    expect.objectContaining({
      status: 429,
      fields: { quota: 'past_contract_versions', limit: MAX_PAST_BYTES },
    }),
  );
});
