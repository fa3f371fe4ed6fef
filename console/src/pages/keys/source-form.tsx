import { Autocomplete, Textarea, TextInput } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { api, dataOf, type Versioned, versionedOf } from '../../api/client.ts';
import { useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useCreateForm, useEditForm } from '../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../shared/notify.ts';
import { QueryState } from '../../shared/query-state.tsx';
import type { Source } from './queries.ts';
import {
  WebhookFields,
  type WebhookValues,
  webhookFieldOf,
  webhookOf,
  webhookValuesOf,
} from './source-webhook.tsx';

const KINDS = ['web', 'ios', 'android', 'server', 'warehouse'];

/** The kind of a source where that of its webhooks names no service. */
const TYPES: Readonly<Record<string, string>> = { standard: 'server', hmac: 'server', none: 'server' };

interface Values extends WebhookValues {
  readonly name: string;
  readonly type: string;
  readonly description: string;
}

const bodyOf = (values: Values, storedSecrets: number) => ({
  name: values.name,
  type: values.type,
  description: values.description === '' ? null : values.description,
  webhook: webhookOf(values, storedSecrets),
});

interface NewProps {
  readonly onClose: () => void;
  /** Called with a source that receives webhooks: it needs an address next. */
  readonly onReceiver: (source: Source) => void;
}

export function NewSource({ onClose, onReceiver }: NewProps) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const state = useCreateForm<Values, Source>({
    initialValues: { name: '', type: 'web', description: '', ...webhookValuesOf(null) },
    fieldOf: webhookFieldOf,
    send: (values) =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/sources', {
          params: workspacePath(workspaceId),
          body: bodyOf(values, 0),
        }),
      ),
    onSent: (source) => {
      void queries.invalidateQueries({ queryKey: ['sources', workspaceId] });
      notifyDone(`The source "${source.name}" is created.`);
      if (source.webhook === null) onClose();
      else onReceiver(source);
    },
  });
  return (
    <ApiFormFrame isOfTab state={state} submitLabel="Create source" onCancel={onClose}>
      <Fields form={state.form} storedSecrets={0} />
    </ApiFormFrame>
  );
}

interface EditProps {
  readonly source: Source;
  readonly onClose: () => void;
}

export function EditSource({ source: { id }, onClose }: EditProps) {
  const workspaceId = useWorkspaceId();
  const query = useQuery({
    queryKey: ['sources', workspaceId, 'one', id],
    queryFn: () => readSource(workspaceId, id),
  });
  return (
    <QueryState query={query} rows={3}>
      {(stored) => <EditForm stored={stored} onClose={onClose} />}
    </QueryState>
  );
}

function readSource(workspaceId: string, sourceId: string): Promise<Versioned<Source>> {
  const { header } = workspacePath(workspaceId);
  return versionedOf(
    api.GET('/api/v1/workspaces/{workspaceId}/sources/{sourceId}', {
      params: { header, path: { workspaceId, sourceId } },
    }),
  );
}

function EditForm({ stored, onClose }: { readonly stored: Versioned<Source>; readonly onClose: () => void }) {
  const queries = useQueryClient();
  const { id, workspace_id } = stored.value;
  const { header } = workspacePath(workspace_id);
  const { webhook } = stored.value;
  /** Those of another kind are not kept. */
  const secretsOf = (values: Values) =>
    webhook?.kind === values.webhook_kind ? (webhook?.secrets.length ?? 0) : 0;
  const state = useEditForm<Source, Values>({
    stored,
    valuesOf: ({ name, type, description, webhook }) => ({
      name,
      type,
      description: description ?? '',
      ...webhookValuesOf(webhook),
    }),
    fieldOf: webhookFieldOf,
    save: (values, etag) =>
      versionedOf(
        api.PATCH('/api/v1/workspaces/{workspaceId}/sources/{sourceId}', {
          params: {
            header: { ...header, 'If-Match': etag },
            path: { workspaceId: workspace_id, sourceId: id },
          },
          body: bodyOf(values, secretsOf(values)),
        }),
      ),
    reload: () => readSource(workspace_id, id),
    onSaved: ({ value: { name } }) => {
      void queries.invalidateQueries({ queryKey: ['sources', workspace_id] });
      notifyDone(`The source "${name}" is saved.`);
      onClose();
    },
  });
  return (
    <ApiFormFrame
      isOfTab
      state={state}
      submitLabel="Save"
      onCancel={onClose}
      labels={{ type: 'Kind', webhook_kind: 'Receives webhooks of' }}
      renderValue={(field, value) => (field === 'secret' ? 'another one' : String(value))}
    >
      <Fields form={state.form} storedSecrets={secretsOf(state.form.getValues())} />
    </ApiFormFrame>
  );
}

interface FieldsProps {
  readonly form: UseFormReturnType<Values>;
  readonly storedSecrets: number;
}

function Fields({ form, storedSecrets }: FieldsProps) {
  return (
    <>
      <TextInput label="Name" withAsterisk data-autofocus {...form.getInputProps('name')} />
      <Autocomplete
        label="Kind"
        description="Lower-case letters, digits, dashes: web, ios, billing-server"
        withAsterisk
        data={KINDS}
        {...form.getInputProps('type')}
      />
      <WebhookFields
        form={form}
        stored={storedSecrets}
        onKind={(kind) => {
          form.setFieldValue('webhook_kind', kind);
          // The kind that a new source begins with is none that its owner chose.
          if (kind !== '' && form.getValues().type === 'web') form.setFieldValue('type', TYPES[kind] ?? kind);
        }}
      />
      <Textarea label="Description" autosize minRows={2} maxRows={8} {...form.getInputProps('description')} />
    </>
  );
}
