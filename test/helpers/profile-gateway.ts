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
