import { Alert, Select, Stack, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { api, dataOf, pageOf } from '../../api/client.ts';
import type { Organization } from '../../frame/organization.ts';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useCreateForm } from '../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../shared/notify.ts';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { includesOrganizationRole } from '../../shared/roles.ts';

const ORGANIZATIONS = 200;
/** Stands in the choice of organizations for a new one, created together with the workspace. */
const NEW = 'new';
/** The initial region of a new organization. */
const FIRST_REGION = 'eu';

export function NewWorkspacePage() {
  const query = useQuery({
    queryKey: ['organizations', 'choice'],
    queryFn: () =>
      pageOf(api.GET('/api/v1/organizations', { params: { query: { limit: ORGANIZATIONS, sort: 'name' } } })),
  });
  return (
    <Page
      title="New workspace"
      description="A workspace has its own keys, contracts, rules and destinations: make one for each product or brand."
    >
      <QueryState query={query}>
        {({ items }) => (
          <WorkspaceForm
            organizations={items.filter(({ role }) => includesOrganizationRole(role, 'admin'))}
          />
        )}
      </QueryState>
    </Page>
  );
}

function WorkspaceForm({ organizations }: { readonly organizations: readonly Organization[] }) {
  const { organization_id: wanted } = useSearch({ from: '/workspaces/new' });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const first = organizations.find(({ id }) => id === wanted) ?? organizations[0];
  const state = useCreateForm({
    initialValues: {
      name: '',
      organization_id: first?.id ?? NEW,
      region: first?.regions[0] ?? FIRST_REGION,
    },
    send: ({ name, organization_id, region }) =>
      dataOf(
        api.POST('/api/v1/workspaces', {
          body: organization_id === NEW ? { name } : { name, organization_id, region },
        }),
      ),
    onSent: ({ id, name }) => {
      void queries.invalidateQueries({ queryKey: ['workspaces'] });
      void queries.invalidateQueries({ queryKey: ['organizations'] });
      notifyDone(`The workspace "${name}" is created. Next: a write key, to send events with.`);
      void navigate({ to: '/w/$workspaceId/keys', params: { workspaceId: id } });
    },
  });
  const { form } = state;
  const chosen = organizations.find(({ id }) => id === form.values.organization_id);
  return (
    <Stack maw={560}>
      <ApiFormFrame state={state} submitLabel="Create workspace">
        <TextInput label="Name" withAsterisk {...form.getInputProps('name')} />
        <Select
          label="Organization"
          description="Its owners and admins are admins of the workspace; its profiles are shared by its workspaces of a region."
          allowDeselect={false}
          data={[
            ...organizations.map(({ id, name }) => ({ value: id, label: name })),
            { value: NEW, label: 'A new organization' },
          ]}
          {...form.getInputProps('organization_id')}
          onChange={(id) => {
            form.setFieldValue('organization_id', id ?? NEW);
            form.setFieldValue(
              'region',
              organizations.find((one) => one.id === id)?.regions[0] ?? FIRST_REGION,
            );
          }}
        />
        {chosen === undefined ? (
          <Alert variant="light">
            The organization gets the name of the workspace and you as its owner, and begins with the region{' '}
            {FIRST_REGION}. Name and regions can be changed.
          </Alert>
        ) : (
          <Select
            label="Region"
            description="Where its profiles live. Regions are added in the organization, tab General."
            allowDeselect={false}
            data={chosen.regions}
            {...form.getInputProps('region')}
          />
        )}
      </ApiFormFrame>
    </Stack>
  );
}
