import { Box, Fieldset, Stack, TagsInput, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { api, type Versioned, versionedOf } from '../../api/client.ts';
import { type Organization, organizationQuery } from '../../frame/organization.ts';
import { AddressStatus } from '../../shared/address-status.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useEditForm } from '../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../shared/notify.ts';

const FORM_WIDTH = 560;

interface Values {
  readonly name: string;
  readonly regions: string[];
  readonly notification_email: string;
}

interface Props {
  readonly stored: Versioned<Organization>;
  readonly isAdmin: boolean;
}

/** Name, regions and address of an organization. */
export function OrganizationGeneral({ stored, isAdmin }: Props) {
  const queries = useQueryClient();
  const { id, org_id } = stored.value;
  const { queryKey, queryFn } = organizationQuery(id);
  const state = useEditForm<Organization, Values>({
    stored,
    valuesOf: ({ name, regions, notification_email }) => ({
      name,
      regions,
      notification_email: notification_email ?? '',
    }),
    save: ({ notification_email, ...body }, etag) =>
      versionedOf(
        api.PATCH('/api/v1/organizations/{organizationId}', {
          params: { path: { organizationId: id }, header: { 'If-Match': etag } },
          body: { ...body, notification_email: notification_email === '' ? null : notification_email },
        }),
      ),
    reload: queryFn,
    onSaved: (saved) => {
      queries.setQueryData(queryKey, saved);
      void queries.invalidateQueries({ queryKey: ['organization', id] });
      void queries.invalidateQueries({ queryKey: ['organizations'] });
      notifyDone('The organization is saved.');
    },
  });
  const { form } = state;
  const sendLink = (email: string) =>
    api.POST('/api/v1/organizations/{organizationId}/notice-addresses/links', {
      params: { path: { organizationId: id } },
      body: { email },
    });
  const fields = (
    <Stack>
      <TextInput label="Name" withAsterisk {...form.getInputProps('name')} />
      <TextInput
        label="Number"
        description="What the profile API calls the organization by: orgId"
        value={org_id}
        readOnly
        variant="filled"
      />
      <TagsInput
        label="Regions"
        description="Where profiles live; each workspace is in one of them. A region that a workspace is in cannot be taken away."
        withAsterisk
        {...form.getInputProps('regions')}
      />
      <TextInput
        type="email"
        label="E-mail address for notices"
        description="Gets notices of deleted profiles, and of unhealthy destinations where a workspace names nobody else."
        {...form.getInputProps('notification_email')}
      />
      <AddressStatus
        email={stored.value.notification_email}
        status={stored.value.notification_email_status}
        sendLink={isAdmin ? sendLink : undefined}
      />
    </Stack>
  );
  if (!isAdmin)
    return (
      <Box maw={FORM_WIDTH}>
        <Text size="sm" c="dimmed" mb="md">
          Admins of the organization change this.
        </Text>
        <Fieldset disabled variant="unstyled">
          {fields}
        </Fieldset>
      </Box>
    );
  return (
    <Box maw={FORM_WIDTH}>
      <ApiFormFrame isOfTab state={state} submitLabel="Save">
        {fields}
      </ApiFormFrame>
    </Box>
  );
}
