import { Button, Group, Skeleton, Stack, Tabs, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import type { Versioned } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { ConnectService } from './connect-service.tsx';
import { ConnectionTest } from './connection-test.tsx';
import { DeleteDestination } from './delete-destination.tsx';
import { DestinationRules } from './destination-rules.tsx';
import { DestinationSettings } from './destination-settings.tsx';
import { statusOf, switchedText } from './destination-status.ts';
import { HealthTab } from './health/health-tab.tsx';
import {
  type Destination,
  destinationHealthQuery,
  destinationQuery,
  destinationTypeQuery,
  destinationTypesQuery,
  patchDestination,
} from './queries.ts';
import { DESTINATION_TABS } from './search.ts';

const WarehouseTabs = lazy(() =>
  import('./warehouse/warehouse-tabs.tsx').then(({ WarehouseTabs }) => ({ default: WarehouseTabs })),
);

/** One destination: its health, its settings, and the rules that deliver to it; of a warehouse its loads and tables. */
export function DestinationPage() {
  const workspaceId = useWorkspaceId();
  const { destinationId } = useParams({ from: '/w/$workspaceId/destinations/$destinationId' });
  const query = useQuery(destinationQuery(workspaceId, destinationId));
  return (
    <QueryState query={query}>
      {(stored) => <Content key={destinationId} workspaceId={workspaceId} stored={stored} />}
    </QueryState>
  );
}

interface Props {
  readonly workspaceId: string;
  readonly stored: Versioned<Destination>;
}

function Content({ workspaceId, stored }: Props) {
  const { value: destination } = stored;
  const navigate = useNavigate();
  const search = useSearch({ from: '/w/$workspaceId/destinations/$destinationId' });
  const { data: types } = useQuery(destinationTypesQuery(workspaceId));
  const { data: health } = useQuery(destinationHealthQuery(workspaceId, destination.id));
  const type = types?.find((one) => one.type === destination.type);
  const isWarehouse = type?.warehouse === true;
  const tab = search.tab ?? (isWarehouse ? 'loads' : 'health');
  const goTo = (value: string | null) => {
    const next = DESTINATION_TABS.find((one) => one === value);
    void navigate({
      to: '/w/$workspaceId/destinations/$destinationId',
      params: { workspaceId, destinationId: destination.id },
      search: { ...(search.hours && { hours: search.hours }), ...(next && { tab: next }) },
    });
  };
  return (
    <Page
      title={destination.name}
      description={
        <Group gap="sm" component="span">
          {type?.title ?? destination.type}
          <StatusLabel status={statusOf(health)} />
        </Group>
      }
      actions={<Switches workspaceId={workspaceId} stored={stored} isWarehouse={isWarehouse} />}
    >
      <Text>
        <TextLink to="/w/$workspaceId/destinations" params={{ workspaceId }}>
          All destinations
        </TextLink>
      </Text>
      <ConnectService workspaceId={workspaceId} destination={destination} />
      <ConnectionTest
        workspaceId={workspaceId}
        destinationId={destination.id}
        hasTest={type?.connection_test ?? true}
        isWarehouse={isWarehouse}
      />
      {/* Before the type is known, nothing tells which tab is the first one. */}
      <Tabs value={type === undefined ? null : tab} onChange={goTo} keepMounted={false}>
        <Tabs.List mb="md">
          {isWarehouse && (
            <>
              <Tabs.Tab value="loads">Loads</Tabs.Tab>
              <Tabs.Tab value="tables">Tables</Tabs.Tab>
              <Tabs.Tab value="discards">Discards</Tabs.Tab>
            </>
          )}
          <Tabs.Tab value="health">Health</Tabs.Tab>
          <Tabs.Tab value="settings">
            {type !== undefined && type.actions.length > 0 ? 'Settings and mappings' : 'Settings'}
          </Tabs.Tab>
          <Tabs.Tab value="rules">Rules</Tabs.Tab>
        </Tabs.List>
        {isWarehouse && (
          <Suspense fallback={<Skeleton height={240} role="status" aria-label="Loading" aria-busy="true" />}>
            <WarehouseTabs workspaceId={workspaceId} destinationId={destination.id} />
          </Suspense>
        )}
        <Tabs.Panel value="health">
          <HealthTab workspaceId={workspaceId} destinationId={destination.id} isWarehouse={isWarehouse} />
        </Tabs.Panel>
        <Tabs.Panel value="settings" keepMounted>
          <Settings workspaceId={workspaceId} stored={stored} />
        </Tabs.Panel>
        <Tabs.Panel value="rules">
          <DestinationRules
            workspaceId={workspaceId}
            destinationId={destination.id}
            isWarehouse={isWarehouse}
          />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** The form, once the settings and actions of the type are read. */
function Settings({ workspaceId, stored }: Props) {
  const query = useQuery(destinationTypeQuery(workspaceId, stored.value.type));
  return (
    <QueryState query={query}>
      {(type) => <DestinationSettings workspaceId={workspaceId} stored={stored} type={type} />}
    </QueryState>
  );
}

/** Pause and resume, enable and disable, delete. */
function Switches({ workspaceId, stored, isWarehouse }: Props & { readonly isWarehouse: boolean }) {
  const { value: destination, etag } = stored;
  const queries = useQueryClient();
  const mayEdit = useMay('editor');
  const change = useMutation({
    mutationFn: (body: { readonly enabled?: boolean; readonly paused?: boolean }) =>
      patchDestination(workspaceId, destination.id, etag, body),
    onSuccess: (saved) => {
      queries.setQueryData(destinationQuery(workspaceId, destination.id).queryKey, saved);
      void queries.invalidateQueries({ queryKey: ['destinations', workspaceId] });
      notifications.show({ message: switchedText(destination, saved.value, isWarehouse) });
    },
    // Another person changed the destination: read it again, so that the person decides on its current state.
    onError: () => queries.invalidateQueries({ queryKey: ['destination', workspaceId, destination.id] }),
  });
  if (!mayEdit) return null;
  const { enabled, paused } = destination;
  return (
    <Stack gap="xs" align="flex-end">
      <Group gap="xs">
        {enabled && destination.connection?.state !== 'disconnected' && (
          <Button
            variant={paused ? 'filled' : 'default'}
            loading={change.isPending}
            onClick={() => change.mutate({ paused: !paused })}
          >
            {paused ? 'Resume' : 'Pause'}
          </Button>
        )}
        <Button
          variant={enabled ? 'default' : 'filled'}
          loading={change.isPending}
          onClick={() => change.mutate({ enabled: !enabled })}
        >
          {enabled ? 'Disable' : 'Enable'}
        </Button>
        <DeleteDestination workspaceId={workspaceId} stored={stored} isWarehouse={isWarehouse} />
      </Group>
      {change.error !== null && <ErrorAlert error={change.error} />}
    </Stack>
  );
}
