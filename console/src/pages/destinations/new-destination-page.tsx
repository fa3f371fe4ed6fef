import { Alert, Box, Skeleton, Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { api, dataOf } from '../../api/client.ts';
import { useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { type ApiForm, useCreateForm } from '../../shared/forms/use-api-form.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { MarkdownText } from '../../shared/markdown-text.tsx';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { ConnectService } from './connect-service.tsx';
import { ConnectionTest } from './connection-test.tsx';
import { DestinationFields } from './destination-fields.tsx';
import {
  bodyOf,
  type DestinationValues,
  errorsOf,
  fieldPathOf,
  labelsOf,
  newValuesOf,
  rootOf,
} from './destination-values.ts';
import { KindPicker } from './kind-picker.tsx';
import { Mappings } from './mappings/mappings.tsx';
import {
  type Destination,
  type DestinationType,
  type DestinationTypeDetails,
  destinationTypeQuery,
  destinationTypesQuery,
} from './queries.ts';
import type { NewDestinationSearch } from './search.ts';
import { MASK } from './settings/drafts.ts';

/** Choose a kind, fill its form, test it. */
export function NewDestinationPage() {
  const workspaceId = useWorkspaceId();
  const navigate = useNavigate();
  const search = useSearch({ from: '/w/$workspaceId/destinations/new' });
  const { data: types, error, refetch } = useQuery(destinationTypesQuery(workspaceId));
  const [created, setCreated] = useState<Destination>();
  const go = (next: NewDestinationSearch) =>
    void navigate({ to: '/w/$workspaceId/destinations/new', params: { workspaceId }, search: next });
  if (error !== null) return <ErrorAlert error={error} retry={() => void refetch()} />;
  if (types === undefined)
    return <Skeleton height={200} role="status" aria-label="Loading" aria-busy="true" />;
  const known = types.some((one) => one.type === search.type);
  if (created !== undefined)
    return (
      <Created
        workspaceId={workspaceId}
        destination={created}
        type={types.find((one) => one.type === created.type)}
      />
    );
  if (search.type === undefined || !known)
    return (
      <Page title="New destination" description="Choose what events are delivered to.">
        {search.type !== undefined && <Alert color="yellow" title={`There is no kind "${search.type}"`} />}
        <KindPicker
          types={types}
          search={search}
          onSearch={go}
          onChoose={(chosen) => go({ ...search, type: chosen })}
        />
      </Page>
    );
  return <KindForm key={search.type} workspaceId={workspaceId} type={search.type} onCreated={setCreated} />;
}

/** The form of a kind, once its settings and actions are read. */
function KindForm({ workspaceId, type, onCreated }: Omit<FormProps, 'type'> & { readonly type: string }) {
  const query = useQuery(destinationTypeQuery(workspaceId, type));
  return (
    <QueryState query={query}>
      {(details) => <NewForm workspaceId={workspaceId} type={details} onCreated={onCreated} />}
    </QueryState>
  );
}

interface FormProps {
  readonly workspaceId: string;
  readonly type: DestinationTypeDetails;
  readonly onCreated: (destination: Destination) => void;
}

function NewForm({ workspaceId, type, onCreated }: FormProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [root] = useState(() => rootOf(type));
  const state: ApiForm<DestinationValues> = useCreateForm({
    initialValues: newValuesOf(root, type),
    validate: (values) => errorsOf(root, values),
    fieldOf: (path) => fieldPathOf(root, path, state.form.getValues()),
    send: (values) =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/destinations', {
          params: workspacePath(workspaceId),
          body: bodyOf(root, type.type, values),
        }),
      ),
    onSent: (destination) => {
      void queries.invalidateQueries({ queryKey: ['destinations', workspaceId] });
      onCreated(destination);
    },
  });
  return (
    <Page
      title={`New destination: ${type.title}`}
      actions={
        <TextLink to="/w/$workspaceId/destinations/new" params={{ workspaceId }}>
          Choose another kind
        </TextLink>
      }
    >
      <ApiFormFrame
        state={state}
        submitLabel="Create destination"
        labels={labelsOf(root)}
        onCancel={() => void navigate({ to: '/w/$workspaceId/destinations', params: { workspaceId } })}
      >
        <Box maw={720}>
          <DestinationFields state={state} root={root} isWarehouse={type.warehouse} />
        </Box>
        <Mappings workspaceId={workspaceId} state={state} root={root} type={type} />
      </ApiFormFrame>
      <Box maw={720}>
        <About type={type} />
      </Box>
    </Page>
  );
}

export function About({ type }: { readonly type: DestinationTypeDetails }) {
  return (
    <Stack gap="xs" component="section" aria-label={`About ${type.title}`}>
      <Text fw={600}>{type.warehouse ? 'How it loads' : 'How it delivers'}</Text>
      <MarkdownText>{type.description}</MarkdownText>
    </Stack>
  );
}

interface CreatedProps {
  readonly workspaceId: string;
  readonly destination: Destination;
  readonly type: DestinationType | undefined;
}

/** The next steps, and the generated secrets: only this answer contains them. */
function Created({ workspaceId, destination, type }: CreatedProps) {
  const { id, name, settings } = destination;
  const { secrets = [], warehouse: isWarehouse = false, actions = [] } = type ?? {};
  const made = secrets.flatMap((secret) => {
    const value = settings[secret];
    return typeof value === 'string' && value !== MASK ? [{ secret, value }] : [];
  });
  return (
    <Page
      title={`${name} is there`}
      description={
        isWarehouse
          ? 'Events that are accepted from now on are loaded, all of them or those that its rules take.'
          : 'Nothing is delivered to it until a rule says which events.'
      }
    >
      <Stack maw={720}>
        {made.map(({ secret, value }) => (
          <Alert key={secret} color="yellow" title="Copy this secret now: it is not shown again">
            <CopyField value={value} label={`the ${secret}`} block />
          </Alert>
        ))}
        <ConnectService workspaceId={workspaceId} destination={destination} />
        <ConnectionTest workspaceId={workspaceId} destinationId={id} isWarehouse={isWarehouse} />
        <Stack gap="xs" align="flex-start">
          {isWarehouse && (
            <ButtonLink
              to="/w/$workspaceId/destinations/$destinationId"
              params={{ workspaceId, destinationId: id }}
            >
              Watch its loads
            </ButtonLink>
          )}
          <ButtonLink
            to="/w/$workspaceId/rules/new"
            params={{ workspaceId }}
            search={{ destination: id }}
            variant={isWarehouse ? 'default' : 'filled'}
          >
            Choose which events go there
          </ButtonLink>
          {!isWarehouse && (
            <TextLink
              to="/w/$workspaceId/destinations/$destinationId"
              params={{ workspaceId, destinationId: id }}
              search={actions.length > 0 ? { tab: 'settings' } : {}}
            >
              {actions.length > 0 ? 'Change its mappings and try them' : `Open ${name}`}
            </TextLink>
          )}
        </Stack>
      </Stack>
    </Page>
  );
}
