import { Accordion, Code, Group, SimpleGrid, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQueryClient } from '@tanstack/react-query';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { JsonView } from '../../shared/json-view.tsx';
import type { ProfileLookup } from '../../shared/profile-lookup.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { AttributesCard } from './attributes-card.tsx';
import { DeleteProfileButton } from './delete-profile.tsx';
import { IdentitiesCard } from './identities-card.tsx';
import { NamedValuesCard } from './named-values-card.tsx';
import { type ProfileScope, profilesKey } from './profile-calls.ts';
import type { ProfileRecord } from './profile-record.ts';

interface Props {
  readonly scope: ProfileScope;
  readonly record: ProfileRecord;
  readonly lookup: ProfileLookup;
  readonly onLookUp: (lookup: ProfileLookup) => void;
}

/** All data about one person. */
export function ProfileView({ scope, record, lookup, onLookUp }: Props) {
  const queries = useQueryClient();
  const workspaceId = useWorkspaceId();
  const mayDelete = useMay('admin');
  const changed = (what: string) => {
    notifications.show({ message: what, color: 'teal' });
    return queries.invalidateQueries({ queryKey: profilesKey(workspaceId) });
  };
  const card = { scope, record, onChanged: (what: string) => void changed(what) };
  return (
    <Stack component="article" aria-label="Profile" gap="md">
      <Group justify="space-between" align="flex-start">
        <Stack gap={4}>
          <CopyField value={record.ucid} label="the ucid" />
          <Text size="sm" c="dimmed">
            Made <Timestamp value={iso(record.created_ts)} relative />, changed{' '}
            <Timestamp value={iso(record.updated_ts)} relative />, region <Code>{record.region}</Code>
          </Text>
        </Stack>
        {mayDelete && (
          <DeleteProfileButton
            scope={scope}
            record={record}
            lookup={lookup}
            onDeleted={() => void changed('The profile is deleted')}
          />
        )}
      </Group>
      <AttributesCard {...card} />
      <IdentitiesCard {...card} onLookUp={onLookUp} />
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <NamedValuesCard {...card} kind="consent" />
        <NamedValuesCard {...card} kind="preference" />
      </SimpleGrid>
      <Accordion variant="contained">
        <Accordion.Item value="json">
          <Accordion.Control>As the API answers it</Accordion.Control>
          <Accordion.Panel>
            <JsonView value={record} label="Profile record" maxHeight="480px" />
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </Stack>
  );
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
