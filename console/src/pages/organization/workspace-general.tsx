import { Fieldset, List, Select, Stack, Switch, Text, TextInput, Title } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api, pageOf, type Versioned, versionedOf } from '../../api/client.ts';
import { useMay, type Workspace, workspacePath } from '../../frame/workspace.tsx';
import { AddressStatus } from '../../shared/address-status.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useEditForm } from '../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../shared/notify.ts';
import { QueryState } from '../../shared/query-state.tsx';

const MAX_DESTINATIONS = 500;

const versionedQuery = (workspaceId: string) => ({
  queryKey: ['workspace', workspaceId, 'versioned'],
  queryFn: () =>
    versionedOf(api.GET('/api/v1/workspaces/{workspaceId}', { params: workspacePath(workspaceId) })),
});

/** Name, region, recipients of notices; archiving. */
export function WorkspaceGeneral({ workspaceId }: { readonly workspaceId: string }) {
  const query = useQuery(versionedQuery(workspaceId));
  const isAdmin = useMay('admin');
  return (
    <Stack gap="xl" maw={560}>
      <QueryState query={query}>{(stored) => <GeneralForm stored={stored} isAdmin={isAdmin} />}</QueryState>
      {isAdmin && query.data !== undefined && <Archive workspace={query.data.value} />}
    </Stack>
  );
}

interface Values {
  readonly name: string;
  readonly alerts: {
    readonly enabled: boolean;
    readonly destination_id: string | null;
    readonly email: string;
  };
}

function valuesOf({ name, alerts }: Workspace): Values {
  return {
    name,
    alerts: {
      enabled: alerts?.enabled ?? true,
      destination_id: alerts?.destination_id ?? null,
      email: alerts?.email ?? '',
    },
  };
}

/**
 * Without a recipient, and not switched off, the workspace has no settings for notices: they go to the organization's
 * address.
 */
function bodyOf({ name, alerts: { enabled, destination_id, email } }: Values) {
  if (enabled && destination_id === null && email === '') return { name, alerts: null };
  return { name, alerts: { enabled, destination_id, email: email === '' ? null : email } };
}

function GeneralForm({
  stored,
  isAdmin,
}: {
  readonly stored: Versioned<Workspace>;
  readonly isAdmin: boolean;
}) {
  const queries = useQueryClient();
  const { id, region, org_id } = stored.value;
  const { path, header } = workspacePath(id);
  const { queryKey, queryFn } = versionedQuery(id);
  const destinations = useQuery({
    queryKey: ['destinations', id, 'choice'],
    queryFn: () =>
      pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/destinations', {
          params: { path, header, query: { limit: MAX_DESTINATIONS, sort: 'name' } },
        }),
      ),
  });
  const state = useEditForm<Workspace, Values>({
    stored,
    valuesOf,
    save: (values, etag) =>
      versionedOf(
        api.PATCH('/api/v1/workspaces/{workspaceId}', {
          params: { path, header: { ...header, 'If-Match': etag } },
          body: bodyOf(values),
        }),
      ),
    reload: queryFn,
    onSaved: (saved) => {
      queries.setQueryData(queryKey, saved);
      void queries.invalidateQueries({ queryKey: ['workspace', id] });
      void queries.invalidateQueries({ queryKey: ['workspaces'] });
      notifyDone('The workspace is saved.');
    },
  });
  const { form } = state;
  const sendLink = (email: string) =>
    api.POST('/api/v1/workspaces/{workspaceId}/notice-addresses/links', {
      params: { path, header },
      body: { email },
    });
  const fields = (
    <Stack>
      <TextInput label="Name" withAsterisk {...form.getInputProps('name')} />
      <TextInput
        label="Region"
        description={`Where its profiles live; in the profile API it is region "${region}" of orgId ${org_id}.`}
        value={region}
        readOnly
        variant="filled"
      />
      <TextInput
        label="Id"
        description="What calls of the API name the workspace by"
        value={id}
        readOnly
        variant="filled"
      />
      <Fieldset legend="Notices of unhealthy destinations">
        <Stack gap="sm">
          <Switch
            label="Send notices"
            description="When deliveries to a destination fail for some time, and when they work again."
            {...form.getInputProps('alerts.enabled', { type: 'checkbox' })}
          />
          <TextInput
            type="email"
            label="E-mail address"
            description="Empty, and without a destination: the address of the organization."
            {...form.getInputProps('alerts.email')}
          />
          <AddressStatus
            email={stored.value.alerts?.email}
            status={stored.value.alerts_email_status}
            sendLink={isAdmin ? sendLink : undefined}
          />
          <Select
            label="Destination"
            description="It gets notices as track events: a webhook of a chat, for example."
            placeholder="None"
            clearable
            searchable
            data={(destinations.data?.items ?? []).map(({ id, name }) => ({ value: id, label: name }))}
            {...form.getInputProps('alerts.destination_id')}
          />
        </Stack>
      </Fieldset>
    </Stack>
  );
  if (!isAdmin)
    return (
      <Fieldset disabled variant="unstyled">
        {fields}
      </Fieldset>
    );
  return (
    <ApiFormFrame isOfTab state={state} submitLabel="Save" labels={{ alerts: 'Notices' }}>
      {fields}
    </ApiFormFrame>
  );
}

function Archive({ workspace: { id, name, organization_id } }: { readonly workspace: Workspace }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const archive = async () => {
    await api.DELETE('/api/v1/workspaces/{workspaceId}', { params: workspacePath(id) });
    await navigate({ to: '/organizations/$organizationId', params: { organizationId: organization_id } });
    void queries.invalidateQueries({ queryKey: ['workspaces'] });
    notifyDone(`The workspace "${name}" is archived.`);
  };
  return (
    <Stack component="section" gap="sm" align="flex-start" aria-labelledby="archive">
      <Title order={2} size="h4" id="archive">
        Archive
      </Title>
      <Text size="sm">For a workspace that is not used any more. It cannot be taken back.</Text>
      <ConfirmButton label="Archive workspace" question={`Archive the workspace "${name}"?`} action={archive}>
        <List size="sm">
          <List.Item>
            All its write keys and API keys are refused at once: no event is taken any more.
          </List.Item>
          <List.Item>Nobody can open its pages; admins still see that it was there.</List.Item>
          <List.Item>Profiles of its region stay: they belong to the organization.</List.Item>
          <List.Item>It cannot be undone.</List.Item>
        </List>
      </ConfirmButton>
    </Stack>
  );
}
