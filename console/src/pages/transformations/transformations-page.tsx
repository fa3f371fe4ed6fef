import { Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import type { Page as PageOf, Schemas } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { HourlySpark } from '../../shared/hourly-spark.tsx';
import { everyHour } from '../../shared/hours.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { durationText, plural, shareText } from '../../shared/quantities.ts';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { STATUSES, type TransformationListSearch } from './search.ts';
import { listTransformations, metricsQuery } from './transformation-calls.ts';
import type { Transformation } from './transformation-values.ts';

const HOURS = 24;
const TONES = { draft: 'neutral', active: 'good', error: 'bad' } as const;

/** The transformations of a workspace, each with its runs and errors. */
export function TransformationsPage() {
  const workspaceId = useWorkspaceId();
  const search = useSearch({ from: '/w/$workspaceId/transformations' });
  const navigate = useNavigate({ from: '/w/$workspaceId/transformations' });
  const mayEdit = useMay('editor');
  const queryKey = ['transformations', workspaceId];
  const onSearch = (next: TransformationListSearch) => void navigate({ search: next });
  // The page that the list below has loaded: one call reads the runs of its transformations.
  const { data: shown } = useQuery<PageOf<Transformation>>({
    queryKey: [...queryKey, search],
    enabled: false,
  });
  const metrics = useQuery(metricsQuery(workspaceId, shown?.items.map(({ id }) => id) ?? [], HOURS));
  return (
    <Page
      title="Transformations"
      description="JavaScript that changes, drops or multiplies events on their way to a destination."
      actions={mayEdit && <NewButton workspaceId={workspaceId} />}
    >
      {metrics.error !== null && <ErrorAlert error={metrics.error} retry={() => void metrics.refetch()} />}
      <PagedList
        queryKey={queryKey}
        load={(wanted, signal) => listTransformations(workspaceId, wanted, signal)}
        search={search}
        onSearch={onSearch}
        columns={columnsOf(workspaceId, metrics.data)}
        rowKey={({ id }) => id}
        label="Transformations"
        filters={
          <NativeSelect
            aria-label="Status"
            value={search.status ?? ''}
            data={[{ value: '', label: 'Any status' }, ...STATUSES]}
            onChange={({ currentTarget: { value } }) => onSearch(restarted(search, { status: value }))}
          />
        }
        empty={
          <EmptyState title="No transformation yet: events are delivered as they are">
            <Text c="dimmed">Begin with a recipe: hash e-mail addresses, drop bots, rename an event.</Text>
            {mayEdit ? (
              <NewButton workspaceId={workspaceId} />
            ) : (
              <Text>An editor of the workspace can make one.</Text>
            )}
          </EmptyState>
        }
      />
    </Page>
  );
}

function NewButton({ workspaceId }: { readonly workspaceId: string }) {
  return (
    <ButtonLink to="/w/$workspaceId/transformations/new" params={{ workspaceId }}>
      New transformation
    </ButtonLink>
  );
}

function columnsOf(
  workspaceId: string,
  metrics: ReadonlyMap<string, Schemas['TransformationMetrics']> | undefined,
): readonly Column<Transformation>[] {
  return [
    {
      title: 'Name',
      sort: 'name',
      cell: ({ id, name, description }) => (
        <Stack gap={0} miw={170}>
          <TextLink
            to="/w/$workspaceId/transformations/$transformationId"
            params={{ workspaceId, transformationId: id }}
            fw={600}
            style={{ overflowWrap: 'anywhere' }}
          >
            {name}
          </TextLink>
          <Text size="xs" c="dimmed" lineClamp={1}>
            {description}
          </Text>
        </Stack>
      ),
    },
    { title: 'Status', cell: ({ status }) => <TransformationStatus status={status} /> },
    { title: 'Runs per hour', cell: ({ id }) => <Runs metrics={metrics?.get(id)} /> },
    { title: 'Errors', cell: ({ id }) => <Errors metrics={metrics?.get(id)} /> },
    {
      title: 'Time of a run',
      cell: ({ id }) => {
        const p99 = metrics?.get(id)?.p99_ms;
        return p99 === null || p99 === undefined ? '–' : `${durationText(Math.max(1, p99))} (p99)`;
      },
    },
    {
      title: 'Changed',
      sort: 'updated_at',
      cell: ({ updated_at }) => <Timestamp value={updated_at} relative />,
    },
  ];
}

export function TransformationStatus({ status }: { readonly status: Transformation['status'] }) {
  return <StatusBadge tone={TONES[status]}>{status}</StatusBadge>;
}

interface MetricsProps {
  readonly metrics: Schemas['TransformationMetrics'] | undefined;
}

function Runs({ metrics }: MetricsProps) {
  if (metrics === undefined) return null;
  if (metrics.runs === 0)
    return (
      <Text size="sm" c="dimmed">
        none in 24 h
      </Text>
    );
  const label = `${plural(metrics.runs, 'run')} in 24 h`;
  return (
    <Group gap="xs" wrap="nowrap">
      <HourlySpark
        values={everyHour(metrics.hourly, HOURS, ({ runs }) => runs).map(({ value }) => value)}
        label={`${label}, by the hour`}
      />
      <Text size="sm">{label}</Text>
    </Group>
  );
}

function Errors({ metrics }: MetricsProps) {
  if (metrics === undefined || metrics.runs === 0) return '–';
  if (metrics.errors === 0) return 'none';
  return (
    <Text size="sm" c="red">
      {plural(metrics.errors, 'error')}, {shareText(metrics.errors, metrics.runs)}
    </Text>
  );
}
