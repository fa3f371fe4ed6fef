import { Button, Group, NativeSelect, Stack, Table, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, pageOf, type Versioned } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { DiffView } from '../../shared/diff-view.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { inOrderOf } from '../../shared/json-text.ts';
import { notifyDone } from '../../shared/notify.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { contractKey, contractPath, replaceContract } from './contract-calls.ts';
import { bodyOf, type Contract, textOf, valuesOf } from './contract-values.ts';
import { ModeBadge } from './contracts-page.tsx';
import { ReviewDialog } from './review-dialog.tsx';
import type { ContractSearch } from './search.ts';

const LIMIT = 100;

interface Props {
  readonly stored: Versioned<Contract>;
  readonly search: ContractSearch;
  readonly onSearch: (search: ContractSearch) => void;
}

/** The versions of a contract, newest first, and the difference of two of them. */
export function ContractVersions({ stored, search, onSearch }: Props) {
  const workspaceId = useWorkspaceId();
  const { id } = stored.value;
  const query = useQuery({
    queryKey: ['contract-versions', workspaceId, id],
    queryFn: () =>
      pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-contracts/{contractId}/versions', {
          params: { ...contractPath(workspaceId, id), query: { limit: LIMIT } },
        }),
      ),
  });
  return (
    <QueryState query={query}>
      {({ items, nextCursor }) => (
        <Stack>
          <Comparison versions={items} stored={stored} search={search} onSearch={onSearch} />
          <VersionTable versions={items} search={search} onSearch={onSearch} />
          {nextCursor !== undefined && <Text c="dimmed">Only the newest {LIMIT} versions are shown.</Text>}
        </Stack>
      )}
    </QueryState>
  );
}

interface ListProps {
  readonly versions: readonly Contract[];
  readonly search: ContractSearch;
  readonly onSearch: (search: ContractSearch) => void;
}

function Comparison({ versions, stored, search, onSearch }: ListProps & Pick<Props, 'stored'>) {
  const newer = versions.find(({ version }) => version === search.newer) ?? versions[0];
  const before = versions.find(({ version }) => newer !== undefined && version < newer.version);
  const older = versions.find(({ version }) => version === search.older) ?? before;
  if (newer === undefined) return null;
  if (older === undefined) return <Text>This is the only version. Every change that is saved adds one.</Text>;
  const choices = versions.map(({ version }) => ({ value: String(version), label: `Version ${version}` }));
  return (
    <Stack gap="xs">
      <Group align="flex-end">
        <NativeSelect
          label="From"
          value={older.version}
          data={choices}
          onChange={({ currentTarget: { value } }) => onSearch({ ...search, older: Number(value) })}
        />
        <NativeSelect
          label="To"
          value={newer.version}
          data={choices}
          onChange={({ currentTarget: { value } }) => onSearch({ ...search, newer: Number(value) })}
        />
        {older.version !== stored.value.version && <RestoreButton stored={stored} version={older} />}
      </Group>
      <DiffView
        language="json"
        label={`Version ${newer.version} compared with version ${older.version}`}
        before={textOf(bodyOf(valuesOf(older)))}
        after={textOf(inOrderOf(bodyOf(valuesOf(newer)), bodyOf(valuesOf(older))))}
      />
    </Stack>
  );
}

function VersionTable({ versions, search, onSearch }: ListProps) {
  return (
    <Table.ScrollContainer minWidth={420}>
      <Table aria-label="Versions" verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Version</Table.Th>
            <Table.Th>Since</Table.Th>
            <Table.Th>On violation</Table.Th>
            <Table.Th>Difference</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {versions.map(({ version, updated_at, enforcement_mode, status }, index) => (
            <Table.Tr key={version}>
              <Table.Td>
                {version}
                {status === 'archived' && ', archived'}
              </Table.Td>
              <Table.Td>
                <Timestamp value={updated_at} />
              </Table.Td>
              <Table.Td>
                <ModeBadge mode={enforcement_mode} />
              </Table.Td>
              <Table.Td>
                <CompareButton
                  newer={version}
                  older={versions[index + 1]?.version}
                  search={search}
                  onSearch={onSearch}
                />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

interface CompareProps extends Pick<ListProps, 'search' | 'onSearch'> {
  readonly newer: number;
  readonly older: number | undefined;
}

function CompareButton({ newer, older, search, onSearch }: CompareProps) {
  if (older === undefined) return null;
  return (
    <Button
      variant="subtle"
      size="compact-sm"
      aria-label={`Compare version ${newer} with version ${older}`}
      onClick={() => onSearch({ ...search, newer, older })}
    >
      with version {older}
    </Button>
  );
}

/** Saves an older version as a new one, after a dry run on recent events. */
function RestoreButton({ stored, version }: Pick<Props, 'stored'> & { readonly version: Contract }) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const mayEdit = useMay('editor');
  const [isReviewed, setReviewed] = useState(false);
  const { id, status } = stored.value;
  const body = bodyOf(valuesOf(version));
  const restore = useMutation({
    mutationFn: () => replaceContract(workspaceId, id, body, stored.etag),
    onSuccess: (saved) => {
      queries.setQueryData(contractKey(workspaceId, id), saved);
      void queries.invalidateQueries({ queryKey: ['contract-versions', workspaceId, id] });
      notifyDone(`Version ${version.version} is back, as version ${saved.value.version}`);
    },
    onError: () => void queries.invalidateQueries({ queryKey: contractKey(workspaceId, id) }),
  });
  if (!mayEdit || status === 'archived') return null;
  return (
    <>
      <Button variant="default" loading={restore.isPending} onClick={() => setReviewed(true)}>
        Bring version {version.version} back
      </Button>
      {restore.error !== null && <ErrorAlert error={restore.error} retry={() => restore.mutate()} />}
      {isReviewed && (
        <ReviewDialog
          workspaceId={workspaceId}
          contractId={id}
          body={body}
          saveLabel={`Bring version ${version.version} back`}
          onClose={() => setReviewed(false)}
          onSave={() => {
            setReviewed(false);
            restore.mutate();
          }}
        />
      )}
    </>
  );
}
