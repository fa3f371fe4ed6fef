import { Group, Tabs, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { Versioned } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { DeferredMount } from '../../shared/deferred.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { archiveContract, contractKey, readContract } from './contract-calls.ts';
import { EditContractForm } from './contract-form.tsx';
import { type Contract, eventsOf } from './contract-values.ts';
import { ContractVersions } from './contract-versions.tsx';
import { ContractViolations } from './contract-violations.tsx';
import { ModeBadge } from './contracts-page.tsx';
import { CONTRACT_TABS, type ContractSearch } from './search.ts';

const FROM = '/w/$workspaceId/contracts/$contractId';
const TITLES = { definition: 'Definition', violations: 'Violations', versions: 'Versions' } as const;

/** One contract: its definition, its violations, its versions. */
export function ContractPage() {
  const workspaceId = useWorkspaceId();
  const { contractId } = useParams({ from: FROM });
  const query = useQuery({
    queryKey: contractKey(workspaceId, contractId),
    queryFn: () => readContract(workspaceId, contractId),
  });
  return (
    <QueryState query={query}>{(stored) => <Loaded key={stored.value.id} stored={stored} />}</QueryState>
  );
}

function Loaded({ stored }: { readonly stored: Versioned<Contract> }) {
  const { value: contract } = stored;
  const search = useSearch({ from: FROM });
  const navigate = useNavigate({ from: FROM });
  const mayEdit = useMay('editor');
  const { tab = 'definition', view = 'form' } = search;
  const isArchived = contract.status === 'archived';
  const onSearch = (next: ContractSearch) => void navigate({ search: next, replace: true });
  return (
    <Page
      title={contract.name}
      description={
        <Group gap="xs" component="span">
          <span>{eventsOf(contract)}</span>
          <ModeBadge mode={contract.enforcement_mode} />
          {isArchived && <StatusBadge tone="neutral">archived</StatusBadge>}
          <Text span size="sm">
            version {contract.version}
          </Text>
        </Group>
      }
      actions={mayEdit && !isArchived && <ArchiveButton stored={stored} />}
    >
      <Tabs
        value={tab}
        keepMounted
        onChange={(chosen) => {
          const next = CONTRACT_TABS.find((known) => known === chosen);
          if (next !== undefined) onSearch({ ...(view === 'json' && { view }), tab: next });
        }}
      >
        <Tabs.List mb="md">
          {CONTRACT_TABS.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {TITLES[name]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {/* Stays mounted, so that unsaved input is kept. */}
        <Tabs.Panel value="definition">
          <DeferredMount>
            <EditContractForm
              stored={stored}
              isReadOnly={!mayEdit || isArchived}
              view={view}
              onView={(chosen) => {
                const { view: _, ...kept } = search;
                onSearch(chosen === 'json' ? { ...kept, view: 'json' } : kept);
              }}
            />
          </DeferredMount>
        </Tabs.Panel>
        <Tabs.Panel value="violations">
          {tab === 'violations' && (
            <ContractViolations contractId={contract.id} search={search} onSearch={onSearch} />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="versions">
          {tab === 'versions' && <ContractVersions stored={stored} search={search} onSearch={onSearch} />}
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function ArchiveButton({ stored }: { readonly stored: Versioned<Contract> }) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const { id, name } = stored.value;
  return (
    <ConfirmButton
      label="Archive"
      question={`Archive "${name}"?`}
      action={async () => {
        await archiveContract(workspaceId, id, stored.etag);
        await Promise.all([
          queries.invalidateQueries({ queryKey: contractKey(workspaceId, id) }),
          queries.invalidateQueries({ queryKey: ['contracts', workspaceId] }),
        ]);
        notifyDone(`Archived the contract ${name}`);
      }}
    >
      New events of {eventsOf(stored.value)} are not checked by it any more, and another contract can be made
      for them. Its violations and versions stay readable. An archived contract cannot be changed or brought
      back.
    </ConfirmButton>
  );
}
