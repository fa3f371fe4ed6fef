import { Badge, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import type { Page as PageOf, Schemas } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { EVENT_TYPES } from '../../shared/event-fields.ts';
import { HourlySpark } from '../../shared/hourly-spark.tsx';
import { everyHour } from '../../shared/hours.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { numberText, plural } from '../../shared/quantities.ts';
import { Timestamp } from '../../shared/timestamp.tsx';
import { listContracts, violationsQuery } from './contract-calls.ts';
import { type Contract, eventsOf } from './contract-values.ts';
import { type ContractListSearch, MODES } from './search.ts';

const HOURS = 24;
const MODE_COLORS = { allow: 'gray', warn: 'yellow', block: 'red' } as const;

/** The contracts of a workspace, each with its violations per hour. */
export function ContractsPage() {
  const workspaceId = useWorkspaceId();
  const search = useSearch({ from: '/w/$workspaceId/contracts' });
  const navigate = useNavigate({ from: '/w/$workspaceId/contracts' });
  const mayEdit = useMay('editor');
  const queryKey = ['contracts', workspaceId];
  const onSearch = (next: ContractListSearch) => void navigate({ search: next });
  // The page that the list below has loaded: one call counts the violations of its contracts.
  const { data: shown } = useQuery<PageOf<Contract>>({ queryKey: [...queryKey, search], enabled: false });
  const violations = useQuery(violationsQuery(workspaceId, shown?.items.map(({ id }) => id) ?? []));
  return (
    <Page
      title="Contracts"
      description="The schema that events of a type and name must satisfy, and the action for those that violate it."
      actions={mayEdit && <NewButton workspaceId={workspaceId} />}
    >
      {violations.error !== null && (
        <ErrorAlert error={violations.error} retry={() => void violations.refetch()} />
      )}
      <PagedList
        queryKey={queryKey}
        load={(wanted, signal) => listContracts(workspaceId, wanted, signal)}
        search={search}
        onSearch={onSearch}
        columns={columnsOf(workspaceId, violations.data)}
        rowKey={({ id }) => id}
        label="Contracts"
        filters={<Filters search={search} onSearch={onSearch} />}
        empty={<NoContracts workspaceId={workspaceId} mayEdit={mayEdit} />}
      />
    </Page>
  );
}

function columnsOf(
  workspaceId: string,
  violations: ReadonlyMap<string, Schemas['ContractViolationCounts']> | undefined,
): readonly Column<Contract>[] {
  return [
    {
      title: 'Name',
      sort: 'name',
      cell: (contract) => (
        <Stack gap={0} miw={170}>
          <TextLink
            to="/w/$workspaceId/contracts/$contractId"
            params={{ workspaceId, contractId: contract.id }}
            fw={600}
            style={{ overflowWrap: 'anywhere' }}
          >
            {contract.name}
          </TextLink>
          <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
            {eventsOf(contract)}
          </Text>
        </Stack>
      ),
    },
    {
      title: 'On violation',
      cell: ({ enforcement_mode }) => <ModeBadge mode={enforcement_mode} />,
    },
    {
      title: 'Violations per hour',
      cell: ({ id }) => <Violations counts={violations?.get(id)} />,
    },
    { title: 'Version', cell: ({ version }) => version },
    {
      title: 'Changed',
      sort: 'updated_at',
      cell: ({ updated_at }) => <Timestamp value={updated_at} relative />,
    },
  ];
}

export function ModeBadge({ mode }: { readonly mode: Contract['enforcement_mode'] }) {
  return (
    <Badge variant="dot" color={MODE_COLORS[mode]} tt="none" fw={500}>
      {mode}
    </Badge>
  );
}

function Violations({ counts }: { readonly counts: Schemas['ContractViolationCounts'] | undefined }) {
  if (counts === undefined) return null;
  if (counts.total === 0)
    return (
      <Text size="sm" c="dimmed">
        none in 24 h
      </Text>
    );
  const values = everyHour(counts.hourly, HOURS, ({ violation_count }) => violation_count);
  return (
    <Group gap="xs" wrap="nowrap">
      <HourlySpark
        values={values.map(({ value }) => value)}
        color="red.7"
        label={`${plural(counts.total, 'violation')} in 24 hours`}
      />
      <Text size="sm">{numberText(counts.total)} in 24 h</Text>
    </Group>
  );
}

interface FilterProps {
  readonly search: ContractListSearch;
  readonly onSearch: (search: ContractListSearch) => void;
}

function Filters({ search, onSearch }: FilterProps) {
  const set = (name: string) => (event: { readonly currentTarget: HTMLSelectElement }) =>
    onSearch(restarted(search, { [name]: event.currentTarget.value }));
  return (
    <>
      <NativeSelect
        aria-label="Type of events"
        value={search.type ?? ''}
        data={[{ value: '', label: 'All types' }, ...EVENT_TYPES]}
        onChange={set('type')}
      />
      <NativeSelect
        aria-label="On violation"
        value={search.mode ?? ''}
        data={[{ value: '', label: 'Any mode' }, ...MODES]}
        onChange={set('mode')}
      />
      <NativeSelect
        aria-label="Status"
        value={search.status ?? ''}
        data={[
          { value: '', label: 'In force' },
          { value: 'archived', label: 'Archived' },
        ]}
        onChange={set('status')}
      />
    </>
  );
}

function NewButton({ workspaceId }: { readonly workspaceId: string }) {
  return (
    <ButtonLink to="/w/$workspaceId/contracts/new" params={{ workspaceId }}>
      New contract
    </ButtonLink>
  );
}

function NoContracts({ workspaceId, mayEdit }: { readonly workspaceId: string; readonly mayEdit: boolean }) {
  return (
    <EmptyState title="No contract yet: every event passes">
      <Text c="dimmed">
        Let one be made from the events that came in lately. It warns until you make it block.
      </Text>
      {mayEdit ? (
        <NewButton workspaceId={workspaceId} />
      ) : (
        <Text>An editor of the workspace can make one.</Text>
      )}
    </EmptyState>
  );
}
