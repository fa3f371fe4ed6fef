import { Button, Group, JsonInput, Select, Stack, Table, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, dataOf, type Schemas } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { useEntityNames } from '../../shared/entity-names.ts';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { type Environment, eventFieldsOf, eventTitle, producerEventOf } from '../../shared/event-fields.ts';
import { TextLink } from '../../shared/links.tsx';
import { plural } from '../../shared/quantities.ts';
import { type Status, StatusLabel } from '../../shared/status-badge.tsx';
import { tryRules } from './queries.ts';

type Verdict = Schemas['RuleVerdict'];

const SAMPLES = 50;
/** Maximum number of verdicts shown: rules that forward the event come first. */
const SHOWN = 50;

const EXAMPLE = `{
  "type": "track",
  "event": "Order Placed",
  "user_id": "ada",
  "properties": { "total": 120 }
}`;

const BECAUSE: Readonly<Record<NonNullable<Verdict['because']>, string>> = {
  disabled: 'The rule is disabled',
  environment: 'It is for another environment',
  event_type: 'It is for other event types',
  event_name: 'It is for other event names',
  filter: 'The filter is false',
  filter_failed: 'The filter fails',
  filter_not_evaluated: 'The filter takes too much work',
  destination_disabled: 'The destination is disabled',
  destination_environment: 'The destination takes no events of this environment',
  integrations: 'The integrations of the event exclude the destination',
  warehouse: 'The destination is a warehouse',
};

/** Evaluates every rule on a recent or written event. Nothing is delivered. */
export function TryRules({ workspaceId }: { readonly workspaceId: string }) {
  const [text, setText] = useState(EXAMPLE);
  const [environment, setEnvironment] = useState<Environment>('production');
  const recent = useQuery({
    queryKey: ['recent-events', workspaceId, 'samples', SAMPLES],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/recent-events', {
          params: { ...workspacePath(workspaceId), query: { limit: SAMPLES } },
        }),
      ),
    staleTime: 30_000,
  });
  const trial = useMutation({
    mutationFn: async () => tryRules(workspaceId, { event: parsed(text), environment }),
  });
  const samples = (recent.data?.events ?? []).map((event, index) => ({ event, value: String(index) }));
  const choose = (value: string | null) => {
    const sample = samples.find((one) => one.value === value);
    if (sample === undefined) return;
    const { environment: of } = eventFieldsOf(sample.event);
    setText(JSON.stringify(producerEventOf(sample.event), null, 2));
    setEnvironment(of === 'development' ? 'development' : 'production');
  };
  return (
    <Stack>
      <Group align="flex-end">
        <Select
          label="Recent event"
          placeholder={samples.length === 0 ? 'None in the last day' : 'Choose one'}
          disabled={samples.length === 0}
          searchable
          w={{ base: '100%', xs: 320 }}
          data={samples.map(({ event, value }) => {
            const fields = eventFieldsOf(event);
            return { value, label: `${eventTitle(fields)} · ${fields.subject || fields.messageId}` };
          })}
          onChange={choose}
        />
        <Select
          label="Environment"
          allowDeselect={false}
          data={[
            { value: 'production', label: 'Production' },
            { value: 'development', label: 'Development' },
          ]}
          value={environment}
          onChange={(value) => setEnvironment(value === 'development' ? 'development' : 'production')}
        />
      </Group>
      <JsonInput
        label="Event"
        description="As a producer sends it."
        autosize
        minRows={6}
        maxRows={20}
        formatOnBlur
        validationError="This is not valid JSON"
        value={text}
        onChange={setText}
      />
      <Group>
        <Button loading={trial.isPending} onClick={() => trial.mutate()}>
          Try all rules
        </Button>
      </Group>
      {trial.error !== null && <ErrorAlert error={trial.error} />}
      {trial.data !== undefined && <Verdicts workspaceId={workspaceId} trial={trial.data} />}
    </Stack>
  );
}

function parsed(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('An event is a JSON object.');
  return { ...value };
}

interface VerdictsProps {
  readonly workspaceId: string;
  readonly trial: Schemas['RulesTrial'];
}

function Verdicts({ workspaceId, trial: { matched, rules } }: VerdictsProps) {
  const sorted = [...rules].sort((left, right) => Number(right.matched) - Number(left.matched));
  const shown = sorted.slice(0, SHOWN);
  const destinations = useEntityNames(
    workspaceId,
    'destination',
    shown.map(({ destination_id }) => destination_id),
  );
  if (rules.length === 0) return <EmptyState title="There is no rule yet" />;
  return (
    <Stack>
      <Text role="status">
        {plural(matched, 'rule')} of {rules.length} would forward it.
      </Text>
      <Table.ScrollContainer minWidth={520}>
        <Table aria-label="Verdicts" verticalSpacing="sm">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Rule</Table.Th>
              <Table.Th>Verdict</Table.Th>
              <Table.Th>Destination</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown.map((verdict) => (
              <Table.Tr key={verdict.rule_id}>
                <Table.Td>
                  <TextLink
                    to="/w/$workspaceId/rules/$ruleId"
                    params={{ workspaceId, ruleId: verdict.rule_id }}
                  >
                    {verdict.name}
                  </TextLink>
                </Table.Td>
                <Table.Td>
                  <StatusLabel status={statusOf(verdict)} />
                  {verdict.message !== null && (
                    <Text size="xs" style={{ overflowWrap: 'anywhere' }}>
                      {verdict.message}
                    </Text>
                  )}
                </Table.Td>
                <Table.Td>{destinations.nameOf(verdict.destination_id)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {rules.length > SHOWN && (
        <Text size="sm" c="dimmed">
          {plural(rules.length - SHOWN, 'rule')} more that are not shown.
        </Text>
      )}
    </Stack>
  );
}

function statusOf({ matched, because }: Verdict): Status {
  if (matched) return { label: 'Forwards it', tone: 'good' };
  const tone = because === 'filter_failed' || because === 'filter_not_evaluated' ? 'bad' : 'neutral';
  return { label: because === null ? 'Does not match' : BECAUSE[because], tone };
}
