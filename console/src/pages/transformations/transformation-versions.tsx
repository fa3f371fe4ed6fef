import { Button, Group, Stack, Table, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { api, dataOf, type Schemas, type Versioned } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { DiffView } from '../../shared/diff-view.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { TransformationSearch } from './search.ts';
import { rollBack, transformationKey, transformationPath } from './transformation-calls.ts';
import { type Transformation, textOf } from './transformation-values.ts';

type Version = Schemas['TransformationVersion'];

interface Props {
  readonly stored: Versioned<Transformation>;
  readonly search: TransformationSearch;
  readonly onSearch: (search: TransformationSearch) => void;
}

/**
 * The versions of the code and its test, newest first, each compared with the current one and with a button to restore it.
 */
export function TransformationVersions({ stored, search, onSearch }: Props) {
  const workspaceId = useWorkspaceId();
  const { id, version } = stored.value;
  const query = useQuery({
    queryKey: ['transformation-versions', workspaceId, id, version],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-transformations/{transformationId}/versions', {
          params: transformationPath(workspaceId, id),
        }),
      ),
  });
  return (
    <QueryState query={query}>
      {(versions) => {
        const [current, before] = versions;
        const chosen = versions.find((candidate) => candidate.version === search.version) ?? before;
        return (
          <Stack>
            {current !== undefined && chosen !== undefined && chosen !== current ? (
              <Comparison stored={stored} current={current} chosen={chosen} />
            ) : (
              <Text>
                {versions.length > 1
                  ? 'This is the version that runs.'
                  : 'This is the only version. Every change of the code or its test adds one.'}
              </Text>
            )}
            <VersionTable
              versions={versions}
              onChoose={(wanted) => onSearch({ ...search, version: wanted })}
            />
          </Stack>
        );
      }}
    </QueryState>
  );
}

interface ComparisonProps {
  readonly stored: Versioned<Transformation>;
  readonly current: Version;
  readonly chosen: Version;
}

function Comparison({ stored, current, chosen }: ComparisonProps) {
  const mayEdit = useMay('editor');
  const label = `From version ${chosen.version} to version ${current.version}, which runs`;
  const testOf = ({ test_input, test_output }: Version) => textOf({ test_input, test_output });
  const isSameCode = chosen.source_code === current.source_code;
  const isSameTest = testOf(chosen) === testOf(current);
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text fw={600}>{label}</Text>
        {mayEdit && <RollBackButton stored={stored} version={chosen.version} />}
      </Group>
      {isSameCode ? (
        <Text c="dimmed">The code is the same.</Text>
      ) : (
        <DiffView
          language="javascript"
          label={`Code: ${label}`}
          before={chosen.source_code}
          after={current.source_code}
        />
      )}
      {!isSameTest && (
        <DiffView language="json" label={`Test: ${label}`} before={testOf(chosen)} after={testOf(current)} />
      )}
    </Stack>
  );
}

function RollBackButton({ stored, version }: Pick<Props, 'stored'> & { readonly version: number }) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const { id } = stored.value;
  return (
    <ConfirmButton
      label={`Go back to version ${version}`}
      question={`Go back to version ${version}?`}
      color="blue"
      action={async () => {
        const saved = await rollBack(workspaceId, id, version, stored.etag);
        queries.setQueryData(transformationKey(workspaceId, id), saved);
        notifyDone(`Version ${version} is back, as version ${saved.value.version}`);
      }}
    >
      Its code and test come back as a new version, which runs from then on. The test is run again first.
      Events already delivered do not change.
    </ConfirmButton>
  );
}

interface TableProps {
  readonly versions: readonly Version[];
  readonly onChoose: (version: number) => void;
}

function VersionTable({ versions, onChoose }: TableProps) {
  return (
    <Table.ScrollContainer minWidth={420}>
      <Table aria-label="Versions" verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Version</Table.Th>
            <Table.Th>Since</Table.Th>
            <Table.Th>Compare</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {versions.map(({ version, created_at }, index) => (
            <Table.Tr key={version}>
              <Table.Td>
                {version}
                {index === 0 && ', runs now'}
              </Table.Td>
              <Table.Td>
                <Timestamp value={created_at} />
              </Table.Td>
              <Table.Td>
                {index > 0 && (
                  <Button
                    variant="subtle"
                    size="compact-sm"
                    aria-label={`Compare version ${version} with the one that runs`}
                    onClick={() => onChoose(version)}
                  >
                    with the one that runs
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
