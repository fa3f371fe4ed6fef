import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, type SyntheticEvent, useState } from 'react';
import type { Versioned } from '../../api/client.ts';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { type ApiForm, useCreateForm, useEditForm } from '../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../shared/notify.ts';
import { contractKey, createContract, readContract, replaceContract } from './contract-calls.ts';
import { ContractFields } from './contract-fields.tsx';
import {
  bodyOf,
  type Contract,
  type ContractValues,
  fieldOfBody,
  readSchema,
  valuesOf,
} from './contract-values.ts';
import { ReviewDialog } from './review-dialog.tsx';
import type { SchemaView } from './schema-editor/schema-editor.tsx';

interface ViewProps {
  readonly view: SchemaView;
  readonly onView: (view: SchemaView) => void;
}

interface NewProps extends ViewProps {
  readonly initialValues: ContractValues;
  readonly onCreated: (contract: Contract) => void;
  readonly onCancel: () => void;
  /** Content above the fields, which may fill the form. */
  readonly children: (form: ApiForm<ContractValues>['form']) => ReactNode;
}

export function NewContractForm({ initialValues, onCreated, onCancel, children, ...view }: NewProps) {
  const workspaceId = useWorkspaceId();
  const [formFault, setFormFault] = useState<string>();
  const state = useCreateForm({
    initialValues,
    validate: validationOf(formFault),
    fieldOf: fieldOfBody,
    send: (values) => createContract(workspaceId, values),
    onSent: onCreated,
  });
  return (
    <>
      {children(state.form)}
      <ReviewedForm
        {...view}
        state={state}
        saveLabel="Create contract"
        onCancel={onCancel}
        formFault={formFault}
        onFormFault={setFormFault}
      />
    </>
  );
}

interface EditProps extends ViewProps {
  readonly stored: Versioned<Contract>;
  readonly isReadOnly: boolean;
}

export function EditContractForm({ stored, isReadOnly, ...view }: EditProps) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const [formFault, setFormFault] = useState<string>();
  const { id } = stored.value;
  const state = useEditForm({
    stored,
    valuesOf,
    validate: validationOf(formFault),
    fieldOf: fieldOfBody,
    save: (values: ContractValues, etag) => replaceContract(workspaceId, id, bodyOf(values), etag),
    reload: () => readContract(workspaceId, id),
    onSaved: (saved) => {
      queries.setQueryData(contractKey(workspaceId, id), saved);
      void queries.invalidateQueries({ queryKey: ['contracts', workspaceId] });
      void queries.invalidateQueries({ queryKey: ['contract-versions', workspaceId, id] });
      notifyDone(`Saved version ${saved.value.version} of ${saved.value.name}`);
    },
  });
  const faults = { formFault, onFormFault: setFormFault };
  if (isReadOnly) return <ContractFields {...view} {...faults} form={state.form} error={null} isReadOnly />;
  return <ReviewedForm {...view} {...faults} state={state} saveLabel="Save contract" contractId={id} />;
}

interface ReviewedProps extends ViewProps {
  readonly state: ApiForm<ContractValues>;
  readonly saveLabel: string;
  readonly contractId?: string;
  readonly onCancel?: () => void;
  readonly formFault: string | undefined;
  readonly onFormFault: (fault: string | undefined) => void;
}

/** The form of a contract. Its button first shows the effect of the contract on recent events. */
function ReviewedForm({ state, saveLabel, contractId, onCancel, view, onView, ...faults }: ReviewedProps) {
  const workspaceId = useWorkspaceId();
  const [reviewed, setReviewed] = useState<ContractValues>();
  const review = (event?: SyntheticEvent<HTMLFormElement>) => {
    event?.preventDefault();
    if (state.form.validate().hasErrors) state.submit(event);
    else setReviewed(state.form.getValues());
  };
  return (
    <>
      <ApiFormFrame
        state={{ ...state, submit: review }}
        submitLabel="Review and save"
        labels={{ schema_text: 'Schema' }}
        {...(onCancel && { onCancel })}
      >
        <ContractFields form={state.form} error={state.error} view={view} onView={onView} {...faults} />
      </ApiFormFrame>
      {reviewed !== undefined && (
        <ReviewDialog
          workspaceId={workspaceId}
          contractId={contractId}
          body={bodyOf(reviewed)}
          saveLabel={saveLabel}
          onClose={() => setReviewed(undefined)}
          onSave={() => {
            setReviewed(undefined);
            state.submit();
          }}
        />
      )}
    </>
  );
}

function validationOf(formFault: string | undefined) {
  return {
    name: (name: string) => (name.trim() === '' ? 'Name the contract.' : null),
    schema_text: (text: string) => readSchema(text).fault ?? formFault ?? null,
  };
}
