import { List, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api, dataOf, type Versioned } from '../../api/client.ts';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { TextLink } from '../../shared/links.tsx';
import { usedByText } from '../../shared/used-by.ts';
import { type Destination, destinationPath, destinationRulesQuery } from './queries.ts';

interface Props {
  readonly workspaceId: string;
  readonly stored: Versioned<Destination>;
  readonly isWarehouse: boolean;
}

/** Deletes a destination. The dialog first lists the rules that prevent it, and the effect on undelivered events. */
export function DeleteDestination({ workspaceId, stored, isWarehouse }: Props) {
  const { value: destination, etag } = stored;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { data: rules } = useQuery(destinationRulesQuery(workspaceId, destination.id));
  const remove = async () => {
    const { path, header } = destinationPath(workspaceId, destination.id);
    await dataOf(
      api.DELETE('/api/v1/workspaces/{workspaceId}/destinations/{destinationId}', {
        params: { path, header: { ...header, 'If-Match': etag } },
      }),
    );
    queries.removeQueries({ queryKey: ['destination', workspaceId, destination.id] });
    void queries.invalidateQueries({ queryKey: ['destinations', workspaceId] });
    notifications.show({ message: `Deleted "${destination.name}".` });
    await navigate({ to: '/w/$workspaceId/destinations', params: { workspaceId } });
  };
  const using = rules?.items ?? [];
  return (
    <ConfirmButton label="Delete" question={`Delete "${destination.name}"?`} action={remove}>
      <Stack gap="xs">
        {using.length > 0 && (
          <>
            <Text>{usedByText(using, rules?.nextCursor !== undefined)}</Text>
            <List>
              {using.map(({ id, name }) => (
                <List.Item key={id}>
                  <TextLink to="/w/$workspaceId/rules/$ruleId" params={{ workspaceId, ruleId: id }}>
                    {name}
                  </TextLink>
                </List.Item>
              ))}
            </List>
          </>
        )}
        <Text>
          {isWarehouse
            ? 'Its settings and secrets go, and nothing is loaded any more. The tables stay in the warehouse as they are. This cannot be undone.'
            : 'Its settings and secrets go. Deliveries that wait for it are not made any more, and dead ones cannot be redriven. This cannot be undone.'}
        </Text>
      </Stack>
    </ConfirmButton>
  );
}
