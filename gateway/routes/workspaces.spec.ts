import type { CatalogView, OrganizationRole } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../errors/api-error.ts';
import { planWorkspace } from './workspaces.ts';

const wanted = {
  id: 'w',
  name: 'Shop',
  organizationId: undefined,
  region: undefined,
  accountId: 'a',
  newOrganizationId: 'new',
};

const state = (role: OrganizationRole | undefined, regions: readonly string[] = ['eu']) =>
  ({
    organization: (id: string) => (id === 'org' ? { id, regions } : undefined),
    organizationRole: (_account: string, id: string) => (id === 'org' ? role : undefined),
  }) as unknown as CatalogView;

function refusal(work: () => unknown) {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError) return { status: error.status, details: error.details };
    throw error;
  }
  throw new Error('taken');
}

describe('planWorkspace', () => {
  it('makes an organization of the same name, owned by the account', () => {
    expect(planWorkspace(wanted, state(undefined))).toEqual({
      workspace: { id: 'w', name: 'Shop', organization_id: 'new', region: 'eu', status: 'active' },
      organization: { id: 'new', name: 'Shop', regions: ['eu'], notification_email: null },
      owner: { account_id: 'a', organization_id: 'new', role: 'owner' },
    });
  });

  it('adds to an organization for its owners and admins', () => {
    const inside = { ...wanted, organizationId: 'ORG', region: 'us' };
    for (const role of ['owner', 'admin'] as const)
      expect(planWorkspace(inside, state(role, ['eu', 'us']))).toEqual({
        workspace: { id: 'w', name: 'Shop', organization_id: 'org', region: 'us', status: 'active' },
      });
  });

  it('is 403 for members, for strangers and for an organization that is not there', () => {
    const inside = { ...wanted, organizationId: 'org' };
    expect(refusal(() => planWorkspace(inside, state('member'))).status).toBe(403);
    expect(refusal(() => planWorkspace(inside, state(undefined))).status).toBe(403);
    expect(refusal(() => planWorkspace({ ...inside, organizationId: 'x' }, state('owner'))).status).toBe(403);
  });

  it('is 400 for a region the organization is not in', () => {
    const fault = { status: 400, details: [{ path: '/region', message: 'must be one of eu' }] };
    expect(refusal(() => planWorkspace({ ...wanted, region: 'us' }, state(undefined)))).toEqual(fault);
    const inside = { ...wanted, organizationId: 'org', region: 'us' };
    expect(refusal(() => planWorkspace(inside, state('owner')))).toEqual(fault);
  });
});
