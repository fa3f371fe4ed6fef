import { Select, Stack, Text } from '@mantine/core';
import { api, pageOf } from '../../api/client.ts';
import { useMay, workspacePath } from '../../frame/workspace.tsx';
import { DestinationSelect } from '../../shared/destination-select.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { useEntityNames } from '../../shared/entity-names.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { type Column, PagedList } from '../../shared/paged-list.tsx';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { type Rule, selectionOf } from './rule-selection.ts';
import { type RulesSearch, rulesSearchOf } from './search.ts';

const PAGE_SIZE = 25;
const SORTS = ['name', '-name', 'created_at', '-created_at', 'updated_at', '-updated_at'] as const;

interface Props {
  readonly workspaceId: string;
  readonly search: RulesSearch;
  readonly onSearch: (search: RulesSearch) => void;
}

/** The rules one by one. */
export function RuleList({ workspaceId, search, onSearch }: Props) {
  const mayEdit = useMay('editor');
  const { view: _, ...filters } = search;
  const change = (name: string) => (value: string | null) => {
    const { cursor: __, ...kept } = search;
    onSearch(rulesSearchOf({ ...kept, [name]: value ?? '' }));
  };
  return (
    <PagedList<Rule, Omit<RulesSearch, 'view'>>
      label="Rules"
      queryKey={['rules', workspaceId, 'list']}
      load={(wanted, signal) => loadRules(workspaceId, wanted, signal)}
      search={filters}
      onSearch={(next) => onSearch({ ...next, view: 'list' })}
      columns={columnsOf(workspaceId)}
      rowKey={({ id }) => id}
      filters={
        <>
          <DestinationSelect
            aria-label="Destination"
            placeholder="All destinations"
            clearable
            value={search.destination ?? null}
            onChange={change('destination')}
          />
          <Select
            aria-label="Environment"
            placeholder="Any environment"
            clearable
            data={[
              { value: 'production', label: 'Production' },
              { value: 'development', label: 'Development' },
            ]}
            value={search.environment ?? null}
            onChange={change('environment')}
          />
          <Select
            aria-label="Switch"
            placeholder="Enabled or not"
            clearable
            data={[
              { value: 'true', label: 'Enabled' },
              { value: 'false', label: 'Disabled' },
            ]}
            value={search.enabled ?? null}
            onChange={change('enabled')}
          />
        </>
      }
      empty={
        <EmptyState title="No rule yet">
          <Stack align="center" gap="sm">
            <Text c="dimmed">Without a rule, events are accepted and kept, and delivered nowhere.</Text>
            {mayEdit && (
              <ButtonLink to="/w/$workspaceId/rules/new" params={{ workspaceId }}>
                New rule
              </ButtonLink>
            )}
          </Stack>
        </EmptyState>
      }
    />
  );
}

function loadRules(
  workspaceId: string,
  { q, sort, cursor, destination, environment, enabled }: RulesSearch,
  signal: AbortSignal,
) {
  const known = SORTS.find((one) => one === sort);
  return pageOf(
    api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
      params: {
        ...workspacePath(workspaceId),
        query: {
          limit: PAGE_SIZE,
          count: 'true',
          ...(q && { q }),
          ...(known && { sort: known }),
          ...(cursor && { cursor }),
          ...(destination && { destination_id: destination }),
          ...(environment && { environment }),
          ...(enabled && { enabled }),
        },
      },
      signal,
    }),
  );
}

function columnsOf(workspaceId: string): readonly Column<Rule>[] {
  return [
    {
      title: 'Name',
      sort: 'name',
      cell: ({ id, name }) => (
        <TextLink to="/w/$workspaceId/rules/$ruleId" params={{ workspaceId, ruleId: id }}>
          {name}
        </TextLink>
      ),
    },
    {
      title: 'Events',
      cell: (rule) => (
        <Stack gap={0}>
          <Text size="sm">{selectionOf(rule)}</Text>
          <Text size="xs" c="dimmed">
            {rule.environments.join(', ')}
          </Text>
        </Stack>
      ),
    },
    {
      title: 'Filter',
      cell: ({ filter }) =>
        filter === null ? (
          '–'
        ) : (
          <Text size="sm" lineClamp={2} maw={260} style={{ overflowWrap: 'anywhere' }}>
            {filter}
          </Text>
        ),
    },
    {
      title: 'Destination',
      cell: ({ destination_id }) => <DestinationName workspaceId={workspaceId} id={destination_id} />,
    },
    {
      title: 'Status',
      cell: ({ enabled }) => (
        <StatusLabel
          status={enabled ? { label: 'Enabled', tone: 'good' } : { label: 'Disabled', tone: 'neutral' }}
        />
      ),
    },
  ];
}

function DestinationName({ workspaceId, id }: { readonly workspaceId: string; readonly id: string }) {
  const { nameOf } = useEntityNames(workspaceId, 'destination', [id]);
  return (
    <TextLink
      size="sm"
      to="/w/$workspaceId/destinations/$destinationId"
      params={{ workspaceId, destinationId: id }}
    >
      {nameOf(id)}
    </TextLink>
  );
}
