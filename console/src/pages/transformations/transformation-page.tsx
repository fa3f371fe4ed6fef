import { Alert, Code, Group, Tabs, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { Versioned } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { Page } from '../../shared/page.tsx';
import { plural } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { usedByText } from '../../shared/used-by.ts';
import { TRANSFORMATION_TABS, type TransformationSearch } from './search.ts';
import {
  deleteTransformation,
  readTransformation,
  transformationKey,
  usedByQuery,
} from './transformation-calls.ts';
import { TransformationRules } from './transformation-rules.tsx';
import { TransformationRuns } from './transformation-runs.tsx';
import type { Transformation } from './transformation-values.ts';
import { TransformationVersions } from './transformation-versions.tsx';
import { TransformationStatus } from './transformations-page.tsx';
import { Workbench } from './workbench/workbench.tsx';

const FROM = '/w/$workspaceId/transformations/$transformationId';
const TITLES = { code: 'Code', runs: 'Runs and errors', versions: 'Versions', rules: 'Used by' } as const;

/** One transformation: its code with a place to try it, its runs, its versions, the rules that use it. */
export function TransformationPage() {
  const workspaceId = useWorkspaceId();
  const { transformationId } = useParams({ from: FROM });
  const query = useQuery({
    queryKey: transformationKey(workspaceId, transformationId),
    queryFn: () => readTransformation(workspaceId, transformationId),
  });
  return (
    <QueryState query={query}>{(stored) => <Loaded key={stored.value.id} stored={stored} />}</QueryState>
  );
}

function Loaded({ stored }: { readonly stored: Versioned<Transformation> }) {
  const { id, name, status, version } = stored.value;
  const workspaceId = useWorkspaceId();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate({ from: FROM });
  const mayEdit = useMay('editor');
  const usedBy = useQuery(usedByQuery(workspaceId, id));
  const { tab = 'code' } = search;
  const onSearch = (next: TransformationSearch) => void navigate({ search: next, replace: true });
  return (
    <Page
      title={name}
      description={
        <Group gap="xs" component="span">
          <TransformationStatus status={status} />
          <Text span size="sm">
            version {version}
          </Text>
          {usedBy.data !== undefined && (
            <Text span size="sm">
              {usedBy.data.items.length === 0
                ? 'used by no rule'
                : `used by ${plural(usedBy.data.items.length, 'rule')}${usedBy.data.nextCursor === undefined ? '' : ' and more'}`}
            </Text>
          )}
        </Group>
      }
      actions={mayEdit && <DeleteButton stored={stored} rules={usedBy.data} />}
    >
      <StatusAlert transformation={stored.value} />
      <Tabs
        value={tab}
        keepMounted
        onChange={(chosen) => {
          const next = TRANSFORMATION_TABS.find((known) => known === chosen);
          if (next !== undefined) onSearch({ tab: next });
        }}
      >
        <Tabs.List mb="md">
          {TRANSFORMATION_TABS.map((known) => (
            <Tabs.Tab key={known} value={known}>
              {TITLES[known]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {/* Stays mounted, so that unsaved input is kept. */}
        <Tabs.Panel value="code">
          <Workbench stored={stored} isReadOnly={!mayEdit} />
        </Tabs.Panel>
        <Tabs.Panel value="runs">
          {tab === 'runs' && <TransformationRuns id={id} search={search} onSearch={onSearch} />}
        </Tabs.Panel>
        <Tabs.Panel value="versions">
          {tab === 'versions' && (
            <TransformationVersions stored={stored} search={search} onSearch={onSearch} />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="rules">{tab === 'rules' && <TransformationRules id={id} />}</Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** The reason why the transformation may not be used, and the remedy. */
function StatusAlert({ transformation }: { readonly transformation: Transformation }) {
  const { status, test_error, last_error } = transformation;
  if (status === 'draft')
    return (
      <Alert color="blue" title="A draft: no enabled rule can use it yet">
        <Text size="sm">
          {test_error ?? 'It has no test.'} Run it on an event, and take the event with its result as the
          test: one that passes makes it active.
        </Text>
      </Alert>
    );
  if (status === 'error')
    return (
      <Alert color="red" title="Stopped, as it kept failing">
        <Text size="sm">
          Events of its rules are dead deliveries until the code is saved again. They can be redriven then.
        </Text>
        {last_error !== null && <Code block>{last_error}</Code>}
      </Alert>
    );
  return null;
}

interface DeleteProps {
  readonly stored: Versioned<Transformation>;
  /** The rules that use it; undefined while they are not known. */
  readonly rules:
    | { readonly items: readonly { readonly enabled: boolean }[]; readonly nextCursor?: string | undefined }
    | undefined;
}

function DeleteButton({ stored, rules }: DeleteProps) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { id, name } = stored.value;
  return (
    <ConfirmButton
      label="Delete"
      question={`Delete "${name}"?`}
      action={async () => {
        await deleteTransformation(workspaceId, id, stored.etag);
        notifyDone(`Deleted the transformation ${name}`);
        await navigate({ to: '/w/$workspaceId/transformations', params: { workspaceId } });
        queries.removeQueries({ queryKey: transformationKey(workspaceId, id) });
        await queries.invalidateQueries({ queryKey: ['transformations', workspaceId] });
      }}
    >
      Its code and all its versions go, and cannot be brought back.{' '}
      {usedByText(rules?.items, rules?.nextCursor !== undefined)}
    </ConfirmButton>
  );
}
