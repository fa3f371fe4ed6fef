import {
  ActionIcon,
  Box,
  Button,
  Code,
  Fieldset,
  Group,
  NumberInput,
  Select,
  Stack,
  Switch,
  Text,
  TextInput,
} from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { PlusIcon, TrashIcon } from '@radix-ui/react-icons';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { api, type Versioned, versionedOf } from '../../api/client.ts';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useEditForm } from '../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../shared/notify.ts';
import { QueryState } from '../../shared/query-state.tsx';
import {
  bodyOf,
  fieldOf,
  linesOf,
  type ProfileSettings,
  type ProfileValues,
  valuesOf,
} from './profile-settings-values.ts';

const queryOf = (organizationId: string) => ({
  queryKey: ['organization', organizationId, 'profile settings'],
  queryFn: () =>
    versionedOf(
      api.GET('/api/v1/organizations/{organizationId}/profile-settings', {
        params: { path: { organizationId } },
      }),
    ),
});

interface Props {
  readonly organizationId: string;
  readonly isAdmin: boolean;
}

/** The identity rules of the organization: default country, blocked identities and limits. */
export function ProfileSettingsTab({ organizationId, isAdmin }: Props) {
  const query = useQuery(queryOf(organizationId));
  return (
    <QueryState query={query}>
      {(stored) => <SettingsForm organizationId={organizationId} isAdmin={isAdmin} stored={stored} />}
    </QueryState>
  );
}

function SettingsForm({
  organizationId,
  isAdmin,
  stored,
}: Props & { readonly stored: Versioned<ProfileSettings> }) {
  const queries = useQueryClient();
  const { queryKey, queryFn } = queryOf(organizationId);
  const state = useEditForm<ProfileSettings, ProfileValues>({
    stored,
    valuesOf,
    fieldOf,
    save: (values, etag) =>
      versionedOf(
        api.PUT('/api/v1/organizations/{organizationId}/profile-settings', {
          params: { path: { organizationId }, header: { 'If-Match': etag } },
          body: bodyOf(values),
        }),
      ),
    reload: queryFn,
    onSaved: (saved) => {
      queries.setQueryData(queryKey, saved);
      void queries.invalidateQueries({ queryKey: ['organization', organizationId] });
      notifyDone('The profile settings are saved.');
    },
  });
  const { form } = state;
  const fields = (
    <Stack>
      <Text size="sm">
        They apply to what is written, searched and deleted from now on. Identities that profiles already have
        stay until they are unlinked or expire.
      </Text>
      <TextInput
        label="Country of telephone numbers"
        description={`Two letters (AT, US): numbers without a country are read as of this one. Empty: only numbers with + or 00 are read.${countryOf(form.values.default_country)}`}
        maw={420}
        maxLength={2}
        {...form.getInputProps('default_country')}
      />
      <BlockedIdentities form={form} isAdmin={isAdmin} />
      <IdentityLimits form={form} isAdmin={isAdmin} />
      <NumberInput
        label="User ids that one identity may bring together"
        description="Above it an identity, such as a shared address, no longer merges profiles. 1 to 1000."
        maw={420}
        allowDecimal={false}
        {...form.getInputProps('max_user_ids_per_identity')}
      />
    </Stack>
  );
  if (!isAdmin)
    return (
      <Fieldset disabled variant="unstyled">
        {fields}
      </Fieldset>
    );
  return (
    <Box maw={860}>
      <ApiFormFrame
        isOfTab
        state={state}
        submitLabel="Save"
        labels={{ max_user_ids_per_identity: 'User ids of an identity' }}
        renderValue={(_, value) => <Code block>{linesOf(value)}</Code>}
      >
        {fields}
      </ApiFormFrame>
    </Box>
  );
}

interface ListProps {
  readonly form: UseFormReturnType<ProfileValues>;
  readonly isAdmin: boolean;
}

function BlockedIdentities({ form, isAdmin }: ListProps) {
  const rows = form.values.blocked_identities;
  return (
    <Fieldset legend="Identities that name nobody">
      <Stack gap="sm">
        <Text size="sm" c="dimmed">
          Values that many people share, such as the address of a shop. A pattern is a regular expression that
          is found anywhere in the value.
        </Text>
        {rows.map(({ key, kind }, row) => (
          <Group key={key} align="flex-start" gap="xs">
            <TextInput
              aria-label={`Type of blocked identity ${row + 1}`}
              placeholder="Any type"
              w={150}
              {...form.getInputProps(`blocked_identities.${row}.type`)}
            />
            <Select
              aria-label={`Kind of blocked identity ${row + 1}`}
              w={110}
              allowDeselect={false}
              data={['value', 'pattern']}
              {...form.getInputProps(`blocked_identities.${row}.kind`)}
            />
            <TextInput
              aria-label={`Blocked identity ${row + 1}`}
              placeholder={kind === 'value' ? 'frontdesk@example.com' : '^kiosk-'}
              flex={1}
              miw={180}
              {...form.getInputProps(`blocked_identities.${row}.text`)}
            />
            {isAdmin && (
              <RemoveRow
                label={`Remove blocked identity ${row + 1}`}
                onClick={() => form.removeListItem('blocked_identities', row)}
              />
            )}
          </Group>
        ))}
        {isAdmin && (
          <AddRow
            label="Add a value or pattern"
            onClick={() =>
              form.insertListItem('blocked_identities', {
                key: newKey(rows),
                type: '',
                kind: 'value',
                text: '',
              })
            }
          />
        )}
      </Stack>
    </Fieldset>
  );
}

function IdentityLimits({ form, isAdmin }: ListProps) {
  const rows = form.values.identity_limits;
  return (
    <Fieldset legend="Identities of a type that one profile has">
      <Stack gap="sm">
        {rows.map(({ key }, row) => (
          <Group key={key} align="flex-start" gap="xs">
            <TextInput
              aria-label={`Type of limit ${row + 1}`}
              placeholder="anonymous_id"
              w={180}
              {...form.getInputProps(`identity_limits.${row}.type`)}
            />
            <NumberInput
              aria-label={`At most, limit ${row + 1}`}
              w={110}
              allowDecimal={false}
              {...form.getInputProps(`identity_limits.${row}.max`)}
            />
            <Switch
              mt={8}
              label="Drop the oldest when one more comes"
              {...form.getInputProps(`identity_limits.${row}.drop_oldest`, { type: 'checkbox' })}
            />
            {isAdmin && (
              <RemoveRow
                label={`Remove limit ${row + 1}`}
                onClick={() => form.removeListItem('identity_limits', row)}
              />
            )}
          </Group>
        ))}
        {isAdmin && (
          <AddRow
            label="Add a limit"
            onClick={() =>
              form.insertListItem('identity_limits', {
                key: newKey(rows),
                type: '',
                max: 50,
                drop_oldest: false,
              })
            }
          />
        )}
      </Stack>
    </Fieldset>
  );
}

function RemoveRow({ label, onClick }: { readonly label: string; readonly onClick: () => void }) {
  return (
    <ActionIcon variant="subtle" color="red" size="lg" aria-label={label} onClick={onClick}>
      <TrashIcon />
    </ActionIcon>
  );
}

function AddRow({ label, onClick }: { readonly label: string; readonly onClick: () => void }) {
  return (
    <Group>
      <Button size="xs" variant="default" leftSection={<PlusIcon aria-hidden />} onClick={onClick}>
        {label}
      </Button>
    </Group>
  );
}

/** A key that no row of the list has. */
function newKey(rows: readonly { readonly key: string }[]): string {
  let at = rows.length;
  while (rows.some(({ key }) => key === `new ${at}`)) at += 1;
  return `new ${at}`;
}

const COUNTRIES = new Intl.DisplayNames('en', { type: 'region', fallback: 'none' });

/** The name of a typed country code, so that a wrong code is noticed: ` Now: Austria.` */
function countryOf(code: string): string {
  const name = /^[A-Za-z]{2}$/.test(code) ? COUNTRIES.of(code.toUpperCase()) : undefined;
  return name === undefined ? '' : ` Now: ${name}.`;
}
