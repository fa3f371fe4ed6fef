import { describe, expect, it } from 'vitest';
import { CatalogState } from '../catalog/fold/state.ts';
import { isUuid, newId } from '../primitives/ids.ts';
import { auditEntriesOf, type ProfileOperation } from './profile-operation.ts';

const BEGUN: ProfileOperation = {
  id: newId(),
  name: 'unlinked',
  organization_id: newId(),
  regions: ['eu', 'us'],
  identity_types: ['loyalty_card'],
  requested: 3,
  at: '2026-01-01T00:00:00.000Z',
  by: 'key:7',
  from: { address: '::1', request_id: 'r' },
};

const entriesOf = (outcome?: ProfileOperation['outcome']) =>
  auditEntriesOf({ ...BEGUN, ...(outcome && { outcome }) }, new CatalogState());

describe('an operation on profiles in the audit log', () => {
  it('that was begun and not ended is one entry, which names the operation', () => {
    expect(entriesOf()).toEqual([
      {
        id: BEGUN.id,
        scope_id: BEGUN.organization_id,
        at: BEGUN.at,
        action: 'unlinked',
        actor: { type: 'client_key', id: '7', email: null, key_prefix: null },
        entity: { type: 'profile', id: BEGUN.id, name: null },
        before: null,
        after: {
          regions: ['eu', 'us'],
          identity_types: ['loyalty_card'],
          requested: 3,
          changed: null,
          not_found: null,
          status: 'begun',
        },
        address: '::1',
        request_id: 'r',
      },
    ]);
  });

  it('is an entry for each profile, the first in place of the beginning; the same on each replay', () => {
    const outcome = { ucids: ['a', 'b', 'c'], not_found: 1, complete: true };
    const entries = entriesOf(outcome);
    expect(entries.map(({ entity }) => entity.id)).toEqual(['a', 'b', 'c']);
    expect(entries[0]?.id).toBe(BEGUN.id);
    expect(new Set(entries.map(({ id }) => id)).size).toBe(3);
    expect(entries.every(({ id }) => isUuid(id))).toBe(true);
    for (const { after } of entries)
      expect(after).toMatchObject({ changed: 3, not_found: 1, status: 'done' });
    expect(entriesOf(outcome)).toEqual(entries);
  });

  it('that changed no profile is one entry, and one that ended early states so', () => {
    expect(entriesOf({ ucids: [], not_found: 3, complete: true })).toMatchObject([
      { id: BEGUN.id, entity: { id: BEGUN.id }, after: { changed: 0, not_found: 3, status: 'done' } },
    ]);
    expect(entriesOf({ ucids: ['a'], not_found: 0, complete: false })).toMatchObject([
      { entity: { id: 'a' }, after: { changed: 1, status: 'incomplete' } },
    ]);
  });
});
