import { Grid, SegmentedControl, Select, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { ENVIRONMENTS } from '../../shared/event-fields.ts';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { AttentionCard } from './attention-card.tsx';
import { Card } from './card.tsx';
import { DestinationsCard } from './destinations-card.tsx';
import { FirstSteps } from './first-steps.tsx';
import { FunnelCard } from './funnel-card.tsx';
import { funnelQuery, isUnusedQuery } from './overview-calls.ts';
import { SamplesDrawer } from './samples-drawer.tsx';
import { type OverviewSearch, RANGES } from './search.ts';
import { StatTiles } from './stat-tiles.tsx';
import { StorageAlert } from './storage-alert.tsx';
import { ViolationsCard } from './violations-card.tsx';
import { VolumeCard } from './volume-card.tsx';

const ROUTE = '/w/$workspaceId/overview';
const RANGE_LABELS = { '24h': '24 hours', '7d': '7 days', '30d': '30 days' } as const;

/** The overview of a workspace: incoming events, problems, and losses on the path of events. */
export function OverviewPage() {
  const { workspaceId } = useParams({ from: ROUTE });
  const { range = '24h', environment, by = 'name', measure, reason } = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const query = useQuery(funnelQuery({ workspaceId, environment }, range));
  const isEmpty = query.data !== undefined && (query.data.totals.received ?? 0) === 0;
  const unused = useQuery({ ...isUnusedQuery(workspaceId), enabled: isEmpty });
  const change = (part: { readonly [Name in keyof OverviewSearch]: OverviewSearch[Name] | undefined }) =>
    void navigate({
      search: (kept) =>
        Object.fromEntries(Object.entries({ ...kept, ...part }).filter(([, value]) => value !== undefined)),
      replace: true,
      resetScroll: false,
    });
  if (isEmpty && unused.data?.isUnused === true)
    return (
      <Page title="Overview">
        <FirstSteps workspaceId={workspaceId} hasKey={unused.data.hasKey} />
      </Page>
    );
  return (
    <Page
      title="Overview"
      actions={
        <>
          <SegmentedControl
            size="xs"
            transitionDuration={0}
            aria-label="Time"
            data={RANGES.map((value) => ({ value, label: RANGE_LABELS[value] }))}
            value={range}
            onChange={(value) => change({ range: RANGES.find((one) => one === value) })}
          />
          <Select
            size="xs"
            aria-label="Environment"
            placeholder="Both environments"
            clearable
            w={170}
            data={[...ENVIRONMENTS]}
            value={environment ?? null}
            onChange={(value) => change({ environment: ENVIRONMENTS.find((one) => one === value) })}
          />
        </>
      }
    >
      <QueryState query={query} rows={10}>
        {({ totals, behind = [] }) => (
          <Stack gap="md">
            <StorageAlert workspaceId={workspaceId} />
            <StatTiles workspaceId={workspaceId} environment={environment} totals={totals} />
            <AttentionCard
              workspaceId={workspaceId}
              environment={environment}
              totals={totals}
              behind={behind}
            />
            <Grid gap="md">
              <Grid.Col span={{ base: 12, lg: 7 }}>
                <VolumeCard workspaceId={workspaceId} environment={environment} range={range} by={by} />
              </Grid.Col>
              <Grid.Col span={{ base: 12, lg: 5 }}>
                <Card title="From received to delivered">
                  <FunnelCard workspaceId={workspaceId} totals={totals} />
                </Card>
              </Grid.Col>
              <Grid.Col span={{ base: 12, lg: 7 }}>
                <DestinationsCard workspaceId={workspaceId} />
              </Grid.Col>
              <Grid.Col span={{ base: 12, lg: 5 }}>
                <ViolationsCard workspaceId={workspaceId} environment={environment} range={range} />
              </Grid.Col>
            </Grid>
          </Stack>
        )}
      </QueryState>
      <SamplesDrawer
        workspaceId={workspaceId}
        environment={environment}
        range={range}
        measure={measure}
        reason={reason}
      />
    </Page>
  );
}
