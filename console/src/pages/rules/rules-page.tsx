import { Tabs } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { ButtonLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { RuleList } from './rule-list.tsx';
import { RuleMatrix } from './rule-matrix-view.tsx';
import { RULE_VIEWS, type RulesSearch } from './search.ts';
import { TryRules } from './try-rules.tsx';

/** The rules of a workspace: as a matrix, as a list, and a trial with an event. */
export function RulesPage() {
  const workspaceId = useWorkspaceId();
  const navigate = useNavigate();
  const mayEdit = useMay('editor');
  const search = useSearch({ from: '/w/$workspaceId/rules' });
  const go = (next: RulesSearch) =>
    void navigate({ to: '/w/$workspaceId/rules', params: { workspaceId }, search: next });
  const view = search.view ?? 'matrix';
  const choose = (value: string | null) => {
    const next = RULE_VIEWS.find((one) => one === value) ?? 'matrix';
    go({ view: next, ...(search.environment && { environment: search.environment }) });
  };
  return (
    <Page
      title="Rules"
      description="Which events are delivered to which destination."
      actions={
        mayEdit && (
          <ButtonLink to="/w/$workspaceId/rules/new" params={{ workspaceId }}>
            New rule
          </ButtonLink>
        )
      }
    >
      <Tabs value={view} onChange={choose} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="matrix">Matrix</Tabs.Tab>
          <Tabs.Tab value="list">List</Tabs.Tab>
          <Tabs.Tab value="try">Try an event</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="matrix">
          <RuleMatrix workspaceId={workspaceId} search={search} onSearch={go} />
        </Tabs.Panel>
        <Tabs.Panel value="list">
          <RuleList workspaceId={workspaceId} search={search} onSearch={go} />
        </Tabs.Panel>
        <Tabs.Panel value="try">
          <TryRules workspaceId={workspaceId} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
