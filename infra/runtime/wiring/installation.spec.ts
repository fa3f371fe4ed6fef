import type { Organization } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { isOfOlderRelease } from './installation.ts';

const STARTED_AT = Date.parse('2026-11-26T12:00:00.000Z');

const catalogBegunAt = (created_at: string) => ({
  organizationByOrgId: (orgId: number): Organization | undefined =>
    orgId === 1
      ? {
          id: 'o',
          version: 1,
          created_at,
          updated_at: created_at,
          name: 'O',
          org_id: 1,
          regions: [],
          notification_email: null,
        }
      : undefined,
});

describe('a catalog without an installation id', () => {
  it('is of an older release if its first organization is older than the process', () => {
    expect(isOfOlderRelease(catalogBegunAt('2026-11-26T11:59:49.000Z'), STARTED_AT)).toBe(true);
  });

  it('is a new one if its first organization came after the start, also by a clock that is behind', () => {
    expect(isOfOlderRelease(catalogBegunAt('2026-11-26T12:00:03.000Z'), STARTED_AT)).toBe(false);
    expect(isOfOlderRelease(catalogBegunAt('2026-11-26T11:59:51.000Z'), STARTED_AT)).toBe(false);
  });

  it('is a new one if there is no organization', () => {
    expect(isOfOlderRelease({ organizationByOrgId: () => undefined }, STARTED_AT)).toBe(false);
  });
});
