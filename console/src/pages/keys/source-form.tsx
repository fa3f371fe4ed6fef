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

const KINDS = ['web', 'ios', 'android', 'server', 'warehouse'];

interface Values {
  readonly name: string;
  readonly type: string;
  readonly description: string;
}

const bodyOf = ({ description, ...rest }: Values) => ({
  ...rest,
  description: description === '' ? null : description,
});

export function NewSource({ onClose }: { readonly onClose: () => void }) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const state = useCreateForm<Values, Source>({
    initialValues: { name: '', type: 'web', description: '' },
    send: (values) =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/sources', {
          params: workspacePath(workspaceId),
          body: bodyOf(values),
        }),
      ),
    onSent: ({ name }) => {
      void queries.invalidateQueries({ queryKey: ['sources', workspaceId] });
      notifyDone(`The source "${name}" is created.`);
      onClose();
    },
  });
  return (
    <ApiFormFrame isOfTab state={state} submitLabel="Create source" onCancel={onClose}>
      <Fields form={state.form} />
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
  const state = useEditForm<Source, Values>({
    stored,
    valuesOf: ({ name, type, description }) => ({ name, type, description: description ?? '' }),
    save: (values, etag) =>
      versionedOf(
        api.PATCH('/api/v1/workspaces/{workspaceId}/sources/{sourceId}', {
          params: {
            header: { ...header, 'If-Match': etag },
            path: { workspaceId: workspace_id, sourceId: id },
          },
          body: bodyOf(values),
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
    <ApiFormFrame isOfTab state={state} submitLabel="Save" onCancel={onClose} labels={{ type: 'Kind' }}>
      <Fields form={state.form} />
    </ApiFormFrame>
  );
}

function Fields({ form }: { readonly form: UseFormReturnType<Values> }) {
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
      <Textarea label="Description" autosize minRows={2} maxRows={8} {...form.getInputProps('description')} />
    </>
  );
}
