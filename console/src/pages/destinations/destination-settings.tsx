import { Box, Stack } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, type Versioned, versionedOf } from '../../api/client.ts';
import { useMay } from '../../frame/workspace.tsx';
import { AddressStatus } from '../../shared/address-status.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { type ApiForm, useEditForm } from '../../shared/forms/use-api-form.ts';
import { JsonView } from '../../shared/json-view.tsx';
import { DestinationFields } from './destination-fields.tsx';
import {
  bodyOf,
  type DestinationValues,
  errorsOf,
  fieldPathOf,
  labelsOf,
  rootOf,
  shownOf,
  valuesOf,
} from './destination-values.ts';
import { Mappings } from './mappings/mappings.tsx';
import { About } from './new-destination-page.tsx';
import {
  type Destination,
  type DestinationTypeDetails,
  destinationPath,
  destinationQuery,
  readDestination,
} from './queries.ts';

interface Props {
  readonly workspaceId: string;
  readonly stored: Versioned<Destination>;
  readonly type: DestinationTypeDetails;
}

/** The settings: a form for people who may change them, otherwise JSON with secrets masked. */
export function DestinationSettings(props: Props) {
  const mayEdit = useMay('editor');
  const { value: destination } = props.stored;
  return (
    <Stack>
      {mayEdit ? <Form {...props} /> : <JsonView value={destination.settings} label="Settings" />}
      <Box maw={720}>
        <CopyField value={destination.id} label="the id" />
        <About type={props.type} />
      </Box>
    </Stack>
  );
}

function Form({ workspaceId, stored, type }: Props) {
  const queries = useQueryClient();
  const [root] = useState(() => rootOf(type, stored.value.settings));
  const { path, header } = destinationPath(workspaceId, stored.value.id);
  const state: ApiForm<DestinationValues> = useEditForm({
    stored,
    valuesOf: (destination) => valuesOf(root, destination),
    validate: (values) => errorsOf(root, values),
    fieldOf: (at) => fieldPathOf(root, at, state.form.getValues()),
    save: async (values, etag) => {
      // Fields outside this form come from the version of `etag`; if a newer one is stored, the save is refused with 412.
      const current = await latest(etag);
      return versionedOf(
        api.PUT('/api/v1/workspaces/{workspaceId}/destinations/{destinationId}', {
          params: { path, header: { ...header, 'If-Match': etag } },
          body: bodyOf(root, type.type, values, current),
        }),
      );
    },
    reload: () => readDestination(workspaceId, stored.value.id),
    onSaved: (saved) => {
      queries.setQueryData(destinationQuery(workspaceId, saved.value.id).queryKey, saved);
      void queries.invalidateQueries({ queryKey: ['destinations', workspaceId] });
      notifications.show({ message: `Saved "${saved.value.name}".` });
    },
  });
  const latest = async (etag: string) =>
    stored.etag === etag ? stored.value : (await readDestination(workspaceId, stored.value.id)).value;
  const sendLink = (email: string) =>
    api.POST('/api/v1/workspaces/{workspaceId}/notice-addresses/links', {
      params: { path: { workspaceId }, header },
      body: { email },
    });
  return (
    <ApiFormFrame
      state={state}
      submitLabel="Save"
      labels={labelsOf(root)}
      renderValue={(field, value) => <Shown value={shownOf(root, field, value)} />}
    >
      <Stack maw={720}>
        <DestinationFields state={state} root={root} isWarehouse={type.warehouse} />
        <AddressStatus
          email={stored.value.alerts?.email}
          status={stored.value.alerts_email_status}
          sendLink={sendLink}
        />
      </Stack>
      <Mappings workspaceId={workspaceId} state={state} root={root} type={type} stored={stored} />
    </ApiFormFrame>
  );
}

function Shown({ value }: { readonly value: unknown }) {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
