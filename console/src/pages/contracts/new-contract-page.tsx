import { useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { Page } from '../../shared/page.tsx';
import { NewContractForm } from './contract-form.tsx';
import { newContractValues } from './contract-values.ts';
import { InferPanel } from './infer-panel.tsx';

/** A new contract: from recent events, or written by hand. */
export function NewContractPage() {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const { type, name, view } = useSearch({ from: '/w/$workspaceId/contracts/new' });
  const navigate = useNavigate({ from: '/w/$workspaceId/contracts/new' });
  const [initialValues] = useState(() => newContractValues(type, name));
  return (
    <Page title="New contract" description="Make it from events that came in, or describe the fields below.">
      <NewContractForm
        initialValues={initialValues}
        view={view ?? 'form'}
        onView={(chosen) =>
          void navigate({
            search: ({ view: _, ...kept }) => (chosen === 'json' ? { ...kept, view: 'json' } : kept),
            replace: true,
          })
        }
        onCancel={() => void navigate({ to: '/w/$workspaceId/contracts', params: { workspaceId } })}
        onCreated={({ id, name: created }) => {
          void queries.invalidateQueries({ queryKey: ['contracts', workspaceId] });
          notifyDone(`Created the contract ${created}`);
          void navigate({
            to: '/w/$workspaceId/contracts/$contractId',
            params: { workspaceId, contractId: id },
          });
        }}
      >
        {(form) => (
          <InferPanel
            type={type ?? 'track'}
            name={name ?? ''}
            isAsked={type !== undefined}
            onInferred={(values) => form.setValues(values)}
          />
        )}
      </NewContractForm>
    </Page>
  );
}
