import { Button, Menu, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import type { Schemas } from '../../api/client.ts';
import { useMay } from '../../frame/workspace.tsx';
import type { Environment } from '../../shared/event-fields.ts';
import { ButtonLink } from '../../shared/links.tsx';
import { type CellState, cellOf, type EventRow } from './rule-matrix.ts';
import type { Rule } from './rule-selection.ts';

const LOOKS: Readonly<Record<Exclude<CellState, 'none'>, { readonly text: string; readonly words: string }>> =
  {
    all: { text: '● all', words: 'all are delivered' },
    some: { text: '◐ filtered', words: 'those that pass a filter are delivered' },
    off: { text: '○ disabled', words: 'its rule is disabled' },
  };

interface Props {
  readonly workspaceId: string;
  readonly event: EventRow;
  readonly destination: Schemas['Destination'];
  readonly rules: readonly Rule[];
  readonly environment: Environment;
}

/** Whether such events go to the destination, with a link to the rules for it, or to a new rule. */
export function MatrixCell({ workspaceId, event, destination, rules, environment }: Props) {
  const mayEdit = useMay('editor');
  const navigate = useNavigate();
  const cell = cellOf(rules, event, environment);
  const what = `${event.name === '' ? event.type : event.name} to ${destination.name}`;
  const [only] = cell.rules;
  if (cell.state === 'none' || only === undefined)
    return mayEdit ? (
      <ButtonLink
        size="compact-sm"
        variant="subtle"
        color="gray"
        aria-label={`New rule: ${what}`}
        to="/w/$workspaceId/rules/new"
        params={{ workspaceId }}
        search={{
          destination: destination.id,
          type: event.type,
          ...(event.name !== '' && { name: event.name }),
          environment,
        }}
      >
        +
      </ButtonLink>
    ) : (
      <Text span c="dimmed" role="img" aria-label={`${what}: not delivered`}>
        –
      </Text>
    );
  const { text, words } = LOOKS[cell.state];
  if (cell.rules.length === 1)
    return (
      <ButtonLink
        size="compact-sm"
        variant="default"
        aria-label={`${what}: ${words}, by "${only.name}"`}
        to="/w/$workspaceId/rules/$ruleId"
        params={{ workspaceId, ruleId: only.id }}
      >
        {text}
      </ButtonLink>
    );
  return (
    <Menu withinPortal>
      <Menu.Target>
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`${text} ×${cell.rules.length}: ${what}, ${words}`}
        >
          {text} ×{cell.rules.length}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{what}</Menu.Label>
        {cell.rules.map(({ id, name, enabled }) => (
          <Menu.Item
            key={id}
            onClick={() =>
              void navigate({ to: '/w/$workspaceId/rules/$ruleId', params: { workspaceId, ruleId: id } })
            }
          >
            {name}
            {enabled ? '' : ' (disabled)'}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
