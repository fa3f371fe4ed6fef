import { Group, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import type { Versioned } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useEditForm } from '../../shared/forms/use-api-form.ts';
import { JsonView } from '../../shared/json-view.tsx';
import { TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { deleteRule, readRule, replaceRule, ruleQuery } from './queries.ts';
import { RuleFields } from './rule-fields.tsx';
import { RuleLayout } from './rule-layout.tsx';
import type { Rule } from './rule-selection.ts';
import { ruleBodyOf, ruleErrorsOf, ruleValuesOf } from './rule-values.ts';

/** One rule: its form, with a preview of the events that it takes. */
export function RulePage() {
  const workspaceId = useWorkspaceId();
  const { ruleId } = useParams({ from: '/w/$workspaceId/rules/$ruleId' });
  const query = useQuery(ruleQuery(workspaceId, ruleId));
  return (
    <QueryState query={query}>
      {(stored) => <Content key={ruleId} workspaceId={workspaceId} stored={stored} />}
    </QueryState>
  );
}

interface Props {
  readonly workspaceId: string;
  readonly stored: Versioned<Rule>;
}

function Content({ workspaceId, stored }: Props) {
  const mayEdit = useMay('editor');
  const { value: rule } = stored;
  return (
    <Page
      title={rule.name}
      description={
        <StatusLabel
          status={rule.enabled ? { label: 'Enabled', tone: 'good' } : { label: 'Disabled', tone: 'neutral' }}
        />
      }
      actions={mayEdit && <DeleteRule workspaceId={workspaceId} stored={stored} />}
    >
      <Group gap="lg">
        <TextLink to="/w/$workspaceId/rules" params={{ workspaceId }}>
          All rules
        </TextLink>
        <TextLink
          to="/w/$workspaceId/destinations/$destinationId"
          params={{ workspaceId, destinationId: rule.destination_id }}
        >
          Its destination
        </TextLink>
        <TextLink to="/w/$workspaceId/deliveries" params={{ workspaceId }} search={{ rule: rule.id }}>
          Its dead and retrying deliveries
        </TextLink>
        <TextLink to="/w/$workspaceId/replays/new" params={{ workspaceId }} search={{ rule: rule.id }}>
          Replay past events for it
        </TextLink>
      </Group>
      {mayEdit ? <Form workspaceId={workspaceId} stored={stored} /> : <ReadOnly rule={rule} />}
    </Page>
  );
}

function ReadOnly({ rule }: { readonly rule: Rule }) {
  return (
    <Stack maw={720}>
      <JsonView value={rule} label="Rule" />
    </Stack>
  );
}

function Form({ workspaceId, stored }: Props) {
  const queries = useQueryClient();
  const { id } = stored.value;
  const state = useEditForm({
    stored,
    valuesOf: ruleValuesOf,
    validate: ruleErrorsOf,
    save: (values, etag) => replaceRule(workspaceId, id, etag, ruleBodyOf(values)),
    reload: () => readRule(workspaceId, id),
    onSaved: (saved) => {
      queries.setQueryData(ruleQuery(workspaceId, id).queryKey, saved);
      void queries.invalidateQueries({ queryKey: ['rules', workspaceId] });
      notifications.show({ message: `Saved "${saved.value.name}".` });
    },
  });
  return (
    <RuleLayout workspaceId={workspaceId} values={state.form.getValues()}>
      <Stack>
        <ApiFormFrame state={state} submitLabel="Save">
          <RuleFields state={state} />
        </ApiFormFrame>
        <CopyField value={id} label="the id" />
      </Stack>
    </RuleLayout>
  );
}

function DeleteRule({ workspaceId, stored: { value: rule, etag } }: Props) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const remove = async () => {
    await deleteRule(workspaceId, rule.id, etag);
    queries.removeQueries({ queryKey: ['rule', workspaceId, rule.id] });
    void queries.invalidateQueries({ queryKey: ['rules', workspaceId] });
    notifications.show({ message: `Deleted "${rule.name}".` });
    await navigate({ to: '/w/$workspaceId/rules', params: { workspaceId } });
  };
  return (
    <ConfirmButton label="Delete" question={`Delete "${rule.name}"?`} action={remove}>
      <Text>
        Events are not delivered by it any more. Its dead deliveries stay in the list; those that its filter
        or transformation stopped cannot be redriven. This cannot be undone.
      </Text>
    </ConfirmButton>
  );
}
