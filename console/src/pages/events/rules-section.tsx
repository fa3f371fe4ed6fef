import { Code, Table, Text } from '@mantine/core';
import type { EntityNames } from '../../shared/entity-names.ts';
import { TextLink } from '../../shared/links.tsx';
import { StatusBadge, type Tone } from '../../shared/status-badge.tsx';
import type { TracedRule } from './event-calls.ts';
import { NOT_MATCHED, WAITS_FOR } from './event-words.ts';

interface Props {
  readonly workspaceId: string;
  readonly rules: readonly TracedRule[];
  readonly destinations: EntityNames;
}

/** Every rule of the workspace, with why it forwards the event or does not. */
export function RulesSection({ workspaceId, rules, destinations }: Props) {
  if (rules.length === 0)
    return (
      <Text size="sm">
        No rule forwards events yet.{' '}
        <TextLink underline="always" to="/w/$workspaceId/rules/new" params={{ workspaceId }}>
          Create one
        </TextLink>{' '}
        to send them to a destination.
      </Text>
    );
  const ordered = [...rules].sort((left, right) => rank(left) - rank(right));
  return (
    <Table.ScrollContainer minWidth={520}>
      <Table aria-label="Rules" verticalSpacing="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Rule</Table.Th>
            <Table.Th>Destination</Table.Th>
            <Table.Th>Matches</Table.Th>
            <Table.Th>Why</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {ordered.map((rule) => (
            <Table.Tr key={rule.rule_id}>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                <TextLink
                  underline="always"
                  to="/w/$workspaceId/rules/$ruleId"
                  params={{ workspaceId, ruleId: rule.rule_id }}
                  size="sm"
                >
                  {rule.name}
                </TextLink>
              </Table.Td>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                {destinations.get(rule.destination_id) ?? '–'}
              </Table.Td>
              <Table.Td>
                <Verdict rule={rule} />
              </Table.Td>
              <Table.Td>
                <Why rule={rule} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** Matching rules first, then rules with an unknown verdict. */
function rank({ matched }: TracedRule): number {
  return matched === true ? 0 : matched === null ? 1 : 2;
}

function Verdict({ rule: { matched } }: { readonly rule: TracedRule }) {
  const [tone, text]: readonly [Tone, string] =
    matched === null ? ['warning', 'Unknown'] : matched ? ['good', 'Yes'] : ['neutral', 'No'];
  return <StatusBadge tone={tone}>{text}</StatusBadge>;
}

const TRANSFORMED: Readonly<Record<TracedRule['transformation'], string>> = {
  none: 'Forwarded as it is.',
  outputs: 'Forwarded as its transformation returned it.',
  dropped: 'Its transformation returned nothing.',
  failed: 'Its transformation failed.',
  unknown: '',
};

function Why({ rule }: { readonly rule: TracedRule }) {
  const { because, message, changed_since, stage, transformation } = rule;
  const parts = [
    because === null ? '' : NOT_MATCHED[because],
    rule.matched === true ? TRANSFORMED[transformation] : '',
    stage === null ? '' : `${WAITS_FOR[stage]}.`,
    changed_since ? 'The rule or its destination was made or changed after the event was accepted.' : '',
  ].filter((part) => part !== '');
  return (
    <>
      <Text size="sm">{parts.join(' ')}</Text>
      {message !== null && <Code>{message}</Code>}
    </>
  );
}
