import { Accordion, Code, Group, Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { Page } from '../../shared/page.tsx';
import { lookUpProfile, type ProfileLookup, useProfileLookup } from '../../shared/profile-lookup.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { IdentityButton } from './identity-dialog.tsx';
import { type ProfileScope, profilesKey, searchProfiles, useProfileScope } from './profile-calls.ts';
import { countsByType, identitiesOf, type ProfileRecord } from './profile-record.ts';
import { ProfileSearchForm } from './profile-search-form.tsx';
import { ProfileView } from './profile-view.tsx';

/** Finds a person's profile by any identity. The identity is kept in memory only, never in the URL. */
export function ProfilesPage() {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const lookup = useProfileLookup(workspaceId);
  const scope = useProfileScope();
  const look = (next: ProfileLookup) => {
    lookUpProfile(queries, workspaceId, next);
    void queries.invalidateQueries({ queryKey: profilesKey(workspaceId) });
  };
  return (
    <Page
      title="Profiles"
      description={
        <>
          What is known of a person. All workspaces of the organization share the profiles of a region
          {scope.data !== undefined && (
            <>
              {' '}
              (here <Code>{scope.data.region}</Code>)
            </>
          )}
          .
        </>
      }
    >
      <ProfileSearchForm lookup={lookup} onSearch={look} />
      {scope.data === undefined && scope.error !== null && (
        <ErrorAlert error={scope.error} retry={() => void scope.refetch()} />
      )}
      {lookup === null && <NothingLookedFor />}
      {lookup !== null && scope.data !== undefined && (
        <Found scope={scope.data} lookup={lookup} onLookUp={look} />
      )}
    </Page>
  );
}

function NothingLookedFor() {
  return (
    <EmptyState title="Look a person up">
      <Text c="dimmed">
        By an e-mail address, a user_id, an anonymous_id, a telephone number, or any other identity that your
        sources send. The identify, group and alias events of production write keys make profiles.
      </Text>
    </EmptyState>
  );
}

interface FoundProps {
  readonly scope: ProfileScope;
  readonly lookup: ProfileLookup;
  readonly onLookUp: (lookup: ProfileLookup) => void;
}

function Found({ scope, lookup, onLookUp }: FoundProps) {
  const workspaceId = useWorkspaceId();
  const query = useQuery({
    queryKey: [...profilesKey(workspaceId), scope, lookup],
    queryFn: ({ signal }) => searchProfiles(scope, lookup, signal),
  });
  return (
    <QueryState query={query}>
      {(found) => {
        const [first, ...others] = found;
        if (first === undefined) return <NobodyFound scope={scope} lookup={lookup} onLookUp={onLookUp} />;
        if (others.length === 0)
          return <ProfileView scope={scope} record={first} lookup={lookup} onLookUp={onLookUp} />;
        return <SeveralFound scope={scope} found={found} lookup={lookup} onLookUp={onLookUp} />;
      }}
    </QueryState>
  );
}

function NobodyFound({ scope, lookup, onLookUp }: FoundProps) {
  const mayWrite = useMay('editor');
  return (
    <EmptyState title="No profile has this identity">
      <Stack align="center" gap="sm" role="status">
        <Text c="dimmed" maw={520}>
          {lookup.type === ''
            ? 'Looked for as e-mail address, user_id, anonymous_id and telephone number. Name the type to look for another.'
            : `Looked for as ${lookup.type}.`}{' '}
          Events of development write no profiles, and a track, page or screen event makes none.
        </Text>
        {mayWrite && (
          <IdentityButton
            label="Create a profile with it"
            scope={scope}
            initial={lookup}
            onWritten={() => onLookUp(lookup)}
          />
        )}
      </Stack>
    </EmptyState>
  );
}

function SeveralFound({ found, ...props }: FoundProps & { readonly found: readonly ProfileRecord[] }) {
  const [opened, setOpened] = useState<string | null>(null);
  return (
    <Stack gap="xs">
      <Text role="status">{found.length} profiles have this value, each under another type of identity.</Text>
      <Accordion variant="separated" value={opened} onChange={setOpened}>
        {found.map((record) => (
          <Accordion.Item key={record.ucid} value={record.ucid}>
            <Accordion.Control>
              <Group gap="sm">
                <Code>{record.ucid}</Code>
                <Text size="sm" c="dimmed">
                  {countsByType(identitiesOf(record))}, changed{' '}
                  <Timestamp value={new Date(record.updated_ts).toISOString()} relative />
                </Text>
              </Group>
            </Accordion.Control>
            <Accordion.Panel>
              {opened === record.ucid && <ProfileView {...props} record={record} />}
            </Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    </Stack>
  );
}
