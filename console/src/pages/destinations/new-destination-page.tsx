import { Alert, Skeleton, Stack, Text } from '@mantine/core';
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
import { ConnectService } from './connect-service.tsx';
import { ConnectionTest } from './connection-test.tsx';
import { DestinationFields } from './destination-fields.tsx';
import {
  bodyOf,
  type DestinationValues,
  errorsOf,
  fieldPathOf,
  labelsOf,
  valuesOf,
} from './destination-values.ts';
import { KindPicker } from './kind-picker.tsx';
import { type Destination, type DestinationType, destinationTypesQuery } from './queries.ts';
import { MASK } from './settings/drafts.ts';
import { fieldOf } from './settings/fields.ts';

/** Choose a kind, fill its form, test it. */
export function NewDestinationPage() {
  const workspaceId = useWorkspaceId();
  const navigate = useNavigate();
  const search = useSearch({ from: '/w/$workspaceId/destinations/new' });
  const { data: types, error, refetch } = useQuery(destinationTypesQuery(workspaceId));
  const [created, setCreated] = useState<Destination>();
  const go = (next: { readonly type?: string; readonly q?: string }) =>
    void navigate({ to: '/w/$workspaceId/destinations/new', params: { workspaceId }, search: next });
  if (error !== null) return <ErrorAlert error={error} retry={() => void refetch()} />;
  if (types === undefined) return <Skeleton height={200} aria-label="Loading" aria-busy="true" />;
  const type = types.find((one) => one.type === search.type);
  if (created !== undefined)
    return (
      <Created
        workspaceId={workspaceId}
        destination={created}
        secrets={type?.secrets ?? []}
        isWarehouse={type?.warehouse === true}
      />
    );
  if (type === undefined)
    return (
      <Page title="New destination" description="Choose what events are delivered to.">
        {search.type !== undefined && <Alert color="yellow" title={`There is no kind "${search.type}"`} />}
        <KindPicker
          types={types}
          q={search.q ?? ''}
          onSearch={(q) => go(q === '' ? {} : { q })}
          onChoose={(chosen) => go({ type: chosen })}
        />
      </Page>
    );
  return <NewForm key={type.type} workspaceId={workspaceId} type={type} onCreated={setCreated} />;
}

interface FormProps {
  readonly workspaceId: string;
  readonly type: DestinationType;
  readonly onCreated: (destination: Destination) => void;
}

function NewForm({ workspaceId, type, onCreated }: FormProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [root] = useState(() => fieldOf(type.settings_schema));
  const state: ApiForm<DestinationValues> = useCreateForm({
    initialValues: valuesOf(root, undefined),
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
      <Stack maw={720}>
        <ApiFormFrame
          state={state}
          submitLabel="Create destination"
          labels={labelsOf(root)}
          onCancel={() => void navigate({ to: '/w/$workspaceId/destinations', params: { workspaceId } })}
        >
          <DestinationFields state={state} root={root} isWarehouse={type.warehouse} />
        </ApiFormFrame>
        <About type={type} />
      </Stack>
    </Page>
  );
}

export function About({ type }: { readonly type: DestinationType }) {
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
  readonly secrets: readonly string[];
  readonly isWarehouse: boolean;
}

/** The next steps, and the generated secrets: only this answer contains them. */
function Created({ workspaceId, destination, secrets, isWarehouse }: CreatedProps) {
  const { id, name, settings } = destination;
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
            >
              Open {name}
            </TextLink>
          )}
        </Stack>
      </Stack>
    </Page>
  );
}
