import { Group, Tabs } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { useEntityNames } from '../../shared/entity-names.ts';
import { ButtonLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { BulkProgress } from './bulk-actions.tsx';
import { DeliveryFilters } from './delivery-filters.tsx';
import { DeliveryGroups } from './delivery-groups.tsx';
import { DeliveryList } from './delivery-list.tsx';
import { ReplayList } from './replays/replay-list.tsx';
import { DELIVERY_TABS, type DeliveriesSearch } from './search.ts';

/** Failures in groups, deliveries one by one, and replays, with the actions that send events again. */
export function DeliveriesPage() {
  const workspaceId = useWorkspaceId();
  const navigate = useNavigate();
  const mayEdit = useMay('editor');
  const search = useSearch({ from: '/w/$workspaceId/deliveries' });
  const rules = useEntityNames(workspaceId, 'rule', search.rule === undefined ? [] : [search.rule]);
  const go = (next: DeliveriesSearch) =>
    void navigate({ to: '/w/$workspaceId/deliveries', params: { workspaceId }, search: next });
  const tab = search.tab ?? 'failures';
  const choose = (value: string | null) => {
    const next = DELIVERY_TABS.find((one) => one === value) ?? 'failures';
    const { destination, rule, cause, status } = search;
    go({
      tab: next,
      ...(next !== 'replays' && {
        ...(destination && { destination }),
        ...(rule && { rule }),
        ...(cause && { cause }),
        ...((status === 'dead' || status === 'retrying') && { status }),
      }),
    });
  };
  return (
    <Page
      title="Deliveries"
      description="What did not arrive at its first try, and how to send it again."
      actions={
        mayEdit && (
          <ButtonLink variant="default" to="/w/$workspaceId/replays/new" params={{ workspaceId }}>
            Replay past events
          </ButtonLink>
        )
      }
    >
      <BulkProgress workspaceId={workspaceId} />
      <Tabs value={tab} onChange={choose} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="failures">Failures</Tabs.Tab>
          <Tabs.Tab value="list">One by one</Tabs.Tab>
          <Tabs.Tab value="replays">Replays</Tabs.Tab>
        </Tabs.List>
        {tab !== 'replays' && (
          <Group gap="xs" wrap="wrap" mb="md">
            <DeliveryFilters
              search={search}
              onSearch={go}
              ofGroups={tab === 'failures'}
              ruleName={search.rule === undefined ? undefined : rules.nameOf(search.rule)}
            />
          </Group>
        )}
        <Tabs.Panel value="failures">
          <DeliveryGroups workspaceId={workspaceId} search={search} />
        </Tabs.Panel>
        <Tabs.Panel value="list">
          <DeliveryList workspaceId={workspaceId} search={search} onSearch={go} />
        </Tabs.Panel>
        <Tabs.Panel value="replays">
          <ReplayList workspaceId={workspaceId} search={search} onSearch={go} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
