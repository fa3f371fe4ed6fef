import type { Client } from '../helpers/client.ts';
import { DEPARTED } from './flights.ts';

interface Named {
  readonly id: string;
  readonly name: string;
}

/** The name of its workspace. */
export const WORKSPACE = 'New York departures';
/** Folder of the ndjson destination, below its workspace's. */
export const NDJSON_FOLDER = 'departures';

const TRANSFORMATION = `function transform(event) {
  const delay = event.properties.dep_delay;
  if (!(delay > 60)) return null;
  event.properties.hours_late = Math.round(delay / 6) / 10;
  return event;
}`;

/** The objects the demo needs in a workspace; created by the first run, found by later ones. */
export interface DemoWorkspace {
  readonly client: Client;
  readonly workspaceId: string;
  /** Of its organization, the owner of the profiles. */
  readonly orgId: number;
  readonly region: string;
  readonly contractId: string;
  readonly writeKey: { readonly id: string; readonly key: string };
}

export async function prepareWorkspace(account: Client, webhookUrl: string): Promise<DemoWorkspace> {
  const workspace =
    (await findByName(account, '/workspaces')) ??
    (await account.post<Named>('/workspaces', { name: WORKSPACE }));
  const client = account.with({ workspaceId: workspace.id });
  const contract = await ensure(client, 'event-contracts', {
    name: 'A departure knows its delay',
    event_type: 'track',
    event_name: DEPARTED,
    schema_definition: { properties: { arr_delay: { type: 'number', required: true } } },
    enforcement_mode: 'block',
    undeclared_fields: 'allow',
  });
  const late = await ensure(client, 'event-transformations', {
    name: 'More than an hour late',
    source_code: TRANSFORMATION,
    test_input: testEvent({ dep_delay: 90 }),
    test_output: testEvent({ dep_delay: 90, hours_late: 1.5 }),
  });
  const webhook = await ensure(client, 'destinations', {
    name: 'Demo webhook',
    type: 'webhook',
    settings: { url: webhookUrl, batch_size: 20 },
  });
  // The receiver has another port in every run.
  await client.put(`./destinations/${webhook.id}`, {
    name: webhook.name,
    type: 'webhook',
    settings: { url: webhookUrl, batch_size: 20 },
    enabled: true,
  });
  const files = await ensure(client, 'destinations', {
    name: 'Demo files',
    type: 'ndjson',
    settings: { folder: NDJSON_FOLDER },
  });
  const departures = { event_types: ['track'], event_names: [DEPARTED], enabled: true };
  await ensure(client, 'event-forwarding-rules', {
    name: 'Late ones to the webhook',
    ...departures,
    destination_id: webhook.id,
    transformation_id: late.id,
  });
  await ensure(client, 'event-forwarding-rules', {
    name: 'All to files',
    ...departures,
    destination_id: files.id,
    transformation_id: null,
  });
  const { organization_id, region } = await client.get<{ organization_id: string; region: string }>(
    `/workspaces/${workspace.id}`,
  );
  const { org_id: orgId } = await client.get<{ org_id: number }>(`/organizations/${organization_id}`);
  const writeKey = await client.post<{ id: string; key: string }>('./event-keys', {
    name: 'demo',
    environment: 'production',
  });
  return { client, workspaceId: workspace.id, orgId, region, contractId: contract.id, writeKey };
}

function testEvent(properties: Readonly<Record<string, number>>): object {
  return { type: 'track', event: DEPARTED, user_id: 'N14228', properties };
}

async function findByName(account: Client, path: string): Promise<Named | undefined> {
  return (await account.get<readonly Named[]>(path)).find(({ name }) => name === WORKSPACE);
}

async function ensure(
  client: Client,
  resource: string,
  body: { readonly name: string; readonly [field: string]: unknown },
): Promise<Named> {
  const found = (await client.get<readonly Named[]>(`./${resource}?limit=1000`)).find(
    ({ name }) => name === body.name,
  );
  return found ?? (await client.post<Named>(`./${resource}`, body));
}
