import { type ProfileStore, Unavailable } from '@tributary/core';
import { onTestFinished } from 'vitest';
import { openTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import { openProfiles, type ProfileOrganization, sendInto } from './profile-client.ts';

/** A gateway with an organization, a client key of it, and a function to create more. */
export async function openProfileGateway(options: TestGatewayOptions = {}) {
  const gateway: TestGateway = await openTestGateway(options);
  onTestFinished(() => gateway.close());
  const owner = await gateway.openWorkspace();
  const organization: ProfileOrganization = await openProfiles(
    owner,
    owner.workspaceId,
    sendInto(gateway.app),
  );
  return { gateway, owner, organization, client: organization.client };
}

/** A store of profiles that does not answer, but for some calls. */
export function awayProfiles(answers: Partial<ProfileStore> = {}): ProfileStore {
  const away = () => Promise.reject(new Unavailable('the engine is away'));
  const calls = { upsert: away, search: away, delete: away, unlink: away, split: away, holdsProfiles: away };
  return { ...calls, close: async () => {}, ...answers };
}
