import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMay } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { plural } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { RulesTable } from '../rules/rules-table.tsx';
import { destinationRulesQuery } from './queries.ts';

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
  readonly isWarehouse: boolean;
}

/** The rules that deliver to a destination. */
export function DestinationRules({ workspaceId, destinationId, isWarehouse }: Props) {
  const mayEdit = useMay('editor');
  const query = useQuery(destinationRulesQuery(workspaceId, destinationId));
  const add = mayEdit && (
    <ButtonLink
      to="/w/$workspaceId/rules/new"
      params={{ workspaceId }}
      search={{ destination: destinationId }}
    >
      New rule to it
    </ButtonLink>
  );
  return (
    <QueryState query={query}>
      {({ items, total }) =>
        items.length === 0 ? (
          <EmptyState title={isWarehouse ? 'Without a rule it gets all events' : 'No rule delivers to it'}>
            <Stack align="center" gap="sm">
              <Text c="dimmed">
                {isWarehouse
                  ? 'With rules for it, only events that one of them takes are loaded.'
                  : 'A rule says which events go there.'}
              </Text>
              {add}
            </Stack>
          </EmptyState>
        ) : (
          <Stack>
            <RulesTable rules={items} label="Rules" />
            <Group>
              {add}
              <TextLink
                to="/w/$workspaceId/rules"
                params={{ workspaceId }}
                search={{ view: 'list', destination: destinationId }}
              >
                {plural(Number(total ?? items.length), 'rule')} to it
              </TextLink>
            </Group>
          </Stack>
        )
      }
    </QueryState>
  );
}
