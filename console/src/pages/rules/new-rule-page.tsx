import { notifications } from '@mantine/notifications';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useCreateForm } from '../../shared/forms/use-api-form.ts';
import { Page } from '../../shared/page.tsx';
import { createRule } from './queries.ts';
import { RuleFields } from './rule-fields.tsx';
import { RuleLayout } from './rule-layout.tsx';
import { newRuleValues, ruleBodyOf, ruleErrorsOf } from './rule-values.ts';

/** Creates a rule, with a preview of the events that it takes. */
export function NewRulePage() {
  const workspaceId = useWorkspaceId();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const search = useSearch({ from: '/w/$workspaceId/rules/new' });
  const state = useCreateForm({
    initialValues: newRuleValues(search),
    validate: ruleErrorsOf,
    send: (values) => createRule(workspaceId, ruleBodyOf(values)),
    onSent: ({ id, name }) => {
      void queries.invalidateQueries({ queryKey: ['rules', workspaceId] });
      notifications.show({ message: `Created "${name}". Events that match are delivered from now on.` });
      void navigate({ to: '/w/$workspaceId/rules/$ruleId', params: { workspaceId, ruleId: id } });
    },
  });
  return (
    <Page title="New rule" description="Which events are delivered to a destination.">
      <RuleLayout workspaceId={workspaceId} values={state.form.getValues()}>
        <ApiFormFrame
          state={state}
          submitLabel="Create rule"
          onCancel={() => void navigate({ to: '/w/$workspaceId/rules', params: { workspaceId } })}
        >
          <RuleFields state={state} />
        </ApiFormFrame>
      </RuleLayout>
    </Page>
  );
}
